"""All adapters of all groups in one pass over a sample, prepared once per model.

What depends on the adapters alone (the queries' LayerNorm and projection, the heads' centring) is done when the
model is assembled. Samples go one at a time: all that a sample needs then stays in the caches. Adapters lie side by
side, so that sums over tokens and dimensions run along memory, and every sample's numbers lie where the last one's did.
"""

import math
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from shardgraph.data.samples import Samples
from shardgraph.learn import inca
from shardgraph.learn.attention import EPS, WIDTHS, Attention

if TYPE_CHECKING:
    from shardgraph.learn.cuda.train import KeysOnDevice

SAFE_EXPONENT = 60.0  # exp(+-60) times thousands of tokens is finite and positive in float32


@dataclass(frozen=True)
class Voices:
    """A adapters, ready to answer: queries and heads by attention head [H, d, A], on the model's device."""

    queries: Tensor
    heads: Tensor
    column: Tensor  # [H, d, 1] the vector w with mean(o Wo) = o . w
    attention: Attention
    reach: float  # the longest query's norm

    @classmethod
    def prepare(cls, q: Tensor, v: Tensor, attention: Attention) -> "Voices":
        """The voices of queries and heads [A, D]."""
        column = attention.column_mean(v).view(attention.heads, attention.head_dim, 1)
        heads = inca.by_head(attention.fold_head(v), attention).mT.contiguous()
        queries = inca.scaled_queries(q, attention).mT.contiguous()
        return cls(queries, heads, column, attention, float(queries.norm(dim=1).max()))

    def logits(self, samples: Samples) -> Tensor:
        """y [n, A] of every adapter on every sample."""
        if self.fused:
            return self.answer_fused(self.keys_fused(samples))
        return self.answer(self.keys(samples))

    @property
    def fused(self) -> bool:
        """Whether the GPU's own kernels cover these voices."""
        return self.queries.is_cuda and self.attention.wk is None and self.attention.head_dim in WIDTHS

    def keys(self, samples: Samples) -> inca.Keys:
        """The samples' keys, on the device of the voices."""
        return inca.project(samples, self.attention, self.queries.dtype, str(self.queries.device))

    def answer(self, keys: inca.Keys) -> Tensor:
        """y [n, A] from keys, one sample at a time."""
        longest = keys.keys.norm(dim=-1).amax(dim=(0, 2)).tolist()
        with torch.no_grad():
            return torch.stack([self._answer_one(keys, i, self.reach * longest[i]) for i in range(len(longest))])

    def keys_fused(self, samples: Samples) -> "KeysOnDevice":
        """The samples' keys as the GPU's kernels want them."""
        from shardgraph.learn.cuda.train import lay_out  # needs Triton, which only comes with a GPU

        return lay_out([samples], self.attention.heads, str(self.queries.device))

    def answer_fused(self, keys: "KeysOnDevice") -> Tensor:
        """y [n, A] from keys, by the GPU's kernels."""
        from shardgraph.learn.cuda.infer import answer

        return answer(*self._rows, keys)

    @cached_property
    def _rows(self) -> tuple[Tensor, Tensor]:
        """Queries and heads [H, A, d], an adapter a row, as the GPU's kernels want them."""
        return self.queries.mT.contiguous(), self.heads.mT.contiguous()

    @cached_property
    def _scratch(self) -> "_Scratch":
        return _Scratch()

    def _answer_one(self, keys: inca.Keys, i: int, highest: float) -> Tensor:
        """y [A] on one sample.

        Softmax without its usual maximum: no score exceeds `highest`, the product of norms, so where that is small
        enough the exponentials can neither overflow nor all vanish, and a pass over the scores is saved.
        """
        key, value = keys.keys[:, i], keys.values[:, i]  # [H, T, d]
        shape = (key.shape[0], key.shape[1], self.queries.shape[2])
        weights = torch.bmm(key, self.queries, out=self._scratch.take("weights", shape, self.queries))
        if keys.bias is not None:
            weights += keys.bias[i].unsqueeze(-1)
        if highest > SAFE_EXPONENT:
            weights -= weights.amax(dim=1, keepdim=True)
        factor = weights.exp_().sum(dim=1).reciprocal_()  # [H, A] what everything gathered is still to be multiplied by
        outputs = torch.bmm(value.mT, weights, out=self._scratch.take("outputs", self.queries.shape, self.queries))
        if self.attention.wo is not None and not self.attention.folded:
            return self._normed(self._turned(outputs * factor.unsqueeze(1)), torch.ones_like(factor))
        return self._normed(outputs, factor, torch.bmm((value @ self.column).mT, weights).squeeze(1))

    def _normed(self, outputs: Tensor, factor: Tensor, means: Tensor | None = None) -> Tensor:
        """The last LayerNorm and the heads: outputs [H, d, A], `factor` and, where known, means [H, A] -> [A]."""
        if means is None:
            means = (outputs * self.column).sum(dim=1)
        product = torch.mul(outputs, self.heads, out=self._scratch.take("product", outputs.shape, outputs))
        dot = (product.sum(dim=1) * factor).sum(dim=0)
        square = (torch.mul(outputs, outputs, out=product).sum(dim=1) * factor.square()).sum(dim=0)
        mean = (means * factor).sum(dim=0)
        return dot * (square / self.attention.dim - mean * mean + EPS).rsqrt()

    def _turned(self, outputs: Tensor) -> Tensor:
        """Through Wo, where that is not folded into the heads."""
        assert self.attention.wo is not None
        return (self.attention.wo.to(outputs).T @ outputs.flatten(0, 1)).view_as(outputs)


class _Scratch(threading.local):
    """Memory that a thread uses again for the next sample: fresh memory costs more than what is done in it."""

    def __init__(self) -> None:
        self.kept: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor of this shape, where the last one of this name lay."""
        size = math.prod(shape)
        if name not in self.kept or self.kept[name].numel() < size:
            with torch.inference_mode(False):  # for every mode
                self.kept[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return self.kept[name][:size].view(shape)
