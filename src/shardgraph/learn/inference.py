"""All adapters of all groups in one pass over a sample, prepared once per model.

What depends on the adapters alone (the queries' LayerNorm and projection, the heads' centring) is done when the
model is assembled. Samples go one at a time: all that a sample needs then stays in the caches.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
    """A adapters, ready to answer: queries and heads by attention head [H, A, d], on the model's device."""

    queries: Tensor
    heads: Tensor
    column: Tensor  # [H, 1, d] the vector w with mean(o Wo) = o . w
    attention: Attention
    reach: float  # the longest query's norm

    @classmethod
    def prepare(cls, q: Tensor, v: Tensor, attention: Attention) -> "Voices":
        """The voices of queries and heads [A, D]."""
        column = attention.column_mean(v).view(attention.heads, 1, attention.head_dim)
        heads = inca.by_head(attention.fold_head(v), attention)
        queries = inca.scaled_queries(q, attention)
        return cls(queries, heads, column, attention, float(queries.norm(dim=-1).max()))

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
        """y [n, A] from keys, one sample at a time, so that it stays in a core's cache; every core has its share."""
        n, cores = keys.keys.shape[1], len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        if n < 2 * cores or keys.keys.is_cuda:
            return self._answer(keys, range(n))
        shares = [range(n * i // cores, n * (i + 1) // cores) for i in range(cores)]
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return torch.cat(list(pool.map(lambda share: self._answer(keys, share), shares)))

    def _answer(self, keys: inca.Keys, rows: range) -> Tensor:
        with torch.no_grad():  # which a thread does not inherit
            return torch.stack([self._dots(*self._attend_one(keys, i)) for i in rows])

    def keys_fused(self, samples: Samples) -> "KeysOnDevice":
        """The samples' keys as the GPU's kernels want them."""
        from shardgraph.learn.cuda.train import lay_out  # needs Triton, which only comes with a GPU

        return lay_out([samples], self.attention.heads, str(self.queries.device))

    def answer_fused(self, keys: "KeysOnDevice") -> Tensor:
        """y [n, A] from keys, by the GPU's kernels."""
        from shardgraph.learn.cuda.infer import answer

        return answer(self.queries, self.heads, keys)

    def _attend_one(self, keys: inca.Keys, i: int) -> tuple[Tensor, Tensor]:
        """What every adapter gathers from one sample [H, A, d], and what that is still to be multiplied by [H, A].

        Softmax without its usual maximum: no score exceeds the product of norms, so where that is small
        enough the exponentials can neither overflow nor all vanish, and a pass over the scores is saved.
        """
        scores = torch.bmm(self.queries, keys.keys[:, i].mT)  # [H, A, T]
        if keys.bias is not None:
            scores += keys.bias[i]
        if self.reach * float(keys.keys[:, i].norm(dim=-1).max()) > SAFE_EXPONENT:
            scores -= scores.amax(dim=-1, keepdim=True)
        weights = scores.exp_()
        return torch.bmm(weights, keys.values[:, i]), weights.sum(dim=-1).reciprocal_()

    def _dots(self, outputs: Tensor, factor: Tensor) -> Tensor:
        """The last LayerNorm and the heads: [..., H, A, d], to be multiplied by `factor` [..., H, A] -> [..., A]."""
        if self.attention.wo is not None and not self.attention.folded:
            outputs, factor = self._turned(outputs * factor.unsqueeze(-1)), torch.ones_like(factor)
        dot = (torch.linalg.vecdot(outputs, self.heads) * factor).sum(dim=-2)
        square = (torch.linalg.vecdot(outputs, outputs) * factor.square()).sum(dim=-2)
        mean = (torch.linalg.vecdot(outputs, self.column) * factor).sum(dim=-2)
        return dot * (square / self.attention.dim - mean * mean + EPS).rsqrt()

    def _turned(self, outputs: Tensor) -> Tensor:
        """Through Wo, where that is not folded into the heads."""
        assert self.attention.wo is not None
        flat = outputs.transpose(-3, -2).flatten(-2) @ self.attention.wo.to(outputs)
        return flat.unflatten(-1, (self.attention.heads, -1)).transpose(-3, -2)
