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
        means = torch.matmul(keys.values, self.column.unsqueeze(1))  # [H, n, T, 1]
        gathered = torch.cat([keys.values, means, torch.ones_like(means)], dim=-1).mT  # [H, n, d + 2, T]
        with torch.no_grad():
            return torch.stack([self._answer_one(keys, gathered[:, i], i) for i in range(keys.keys.shape[1])])

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

    def _answer_one(self, keys: inca.Keys, gathered: Tensor, i: int) -> Tensor:
        """y [A] on one sample, whose values lie in `gathered` with their means and ones.

        Softmax without its usual maximum: no score exceeds the product of norms, so where that is small enough the
        exponentials can neither overflow nor all vanish, and a pass over the scores is saved.
        """
        key, (heads, dim, adapters) = keys.keys[:, i], self.queries.shape
        weights = self._scratch.take("weights", (heads, key.shape[1], adapters), self.queries)
        torch.bmm(key, self.queries, out=weights)
        if keys.bias is not None:
            weights += keys.bias[i].unsqueeze(-1)
        if not self._bounded and self.reach * float(key.norm(dim=-1).max()) > SAFE_EXPONENT:
            weights -= weights.amax(dim=1, keepdim=True)
        found = self._scratch.take("found", (heads, dim + 2, adapters), self.queries)
        outputs, means, sums = torch.bmm(gathered, weights.exp_(), out=found).split([dim, 1, 1], dim=1)
        factor = sums.reciprocal()  # which everything that was gathered is still to be multiplied by
        if self.attention.wo is not None and not self.attention.folded:
            outputs = self._turned(outputs * factor)
            means, factor = (outputs * self.column).sum(dim=1, keepdim=True), torch.ones_like(factor)
        product = torch.mul(outputs, self.heads, out=self._scratch.take("product", self.queries.shape, self.queries))
        dot = _total(product, factor)
        square = _total(torch.mul(outputs, outputs, out=product), factor.square())
        mean = _total(means, factor)
        return dot * (square / self.attention.dim - mean * mean + EPS).rsqrt()

    @property
    def _bounded(self) -> bool:
        """Whether no score can be too high: an unprojected token is no longer than LayerNorm makes it."""
        return self.attention.wk is None and self.reach * math.sqrt(self.attention.dim) <= SAFE_EXPONENT

    def _turned(self, outputs: Tensor) -> Tensor:
        """Through Wo, where that is not folded into the heads."""
        assert self.attention.wo is not None
        return (self.attention.wo.to(outputs).T @ outputs.flatten(0, 1)).view(outputs.shape)


def _total(parts: Tensor, factor: Tensor) -> Tensor:
    """The sum over heads and dimensions [A] of parts [H, d, A], times `factor` [H, 1, A]."""
    return (parts.sum(dim=1, keepdim=True) * factor).sum(dim=(0, 1))


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
