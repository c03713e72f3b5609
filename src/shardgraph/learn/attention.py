"""The frozen multi-head cross-attention that all Open-InCA adapters share (paper, appendix A).

    K = LN(z) Wk    V = LN(z) Wv    Q = LN(q) Wq    e = LN(concat_h softmax(Q_h K_h' / sqrt(d)) V_h  Wo)

Only q and the head v learn. Two facts about frozen matrices save most of the arithmetic:

* v . LN(o Wo) needs no product o Wo when Wo is orthogonal, because then |o Wo| = |o|:
  v . LN(o Wo) = (o . Wo (v - mean v)) / sqrt(|o|^2 / D - (o . w)^2 + eps), w the mean of Wo's columns.
* with identity matrices keys and values are one tensor.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shardgraph.digest import generator
from shardgraph.learn.recipe import Recipe

EPS = 1e-5  # of every LayerNorm
WIDTHS = (16, 32, 64, 128)  # dimensions of a head that the GPU's kernels are written for


@dataclass(frozen=True)
class Attention:
    """The frozen matrices; None stands for the identity. `folded`: Wo is orthogonal and never applied."""

    dim: int
    heads: int
    wq: Tensor | None
    wk: Tensor | None
    wv: Tensor | None
    wo: Tensor | None
    folded: bool

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    def column_mean(self, like: Tensor) -> Tensor:
        """The vector w with mean(o Wo) = o . w, in the space where the head's product is taken."""
        if self.folded and self.wo is not None:
            return self.wo.mean(dim=1)
        return torch.full((self.dim,), 1 / self.dim, dtype=like.dtype, device=like.device)

    def fold_head(self, v: Tensor) -> Tensor:
        """The head as it meets the attention's output: centred, and turned by Wo where that is folded."""
        centred = v - v.mean(dim=-1, keepdim=True)
        return centred @ self.wo.T if self.folded and self.wo is not None else centred

    def unfold_head_grad(self, grad: Tensor) -> Tensor:
        """The gradient with respect to v, from that with respect to `fold_head(v)`."""
        grad = grad @ self.wo if self.folded and self.wo is not None else grad
        return grad - grad.mean(dim=-1, keepdim=True)


def frozen_attention(dim: int, recipe: Recipe, seed: int, dtype: torch.dtype = torch.float32) -> Attention:
    """The attention of this recipe and seed; a function of nothing else."""
    heads = recipe.head_count(dim)
    if recipe.projection == "identity":
        return Attention(dim, heads, None, None, None, None, folded=True)
    draw = _orthogonal if recipe.projection == "orthogonal" else _xavier
    wq, wk, wv, wo = (
        torch.from_numpy(draw(dim, generator(seed, "attention", name))).to(dtype) for name in ("q", "k", "v", "o")
    )
    return Attention(dim, heads, wq, wk, wv, wo, folded=recipe.projection == "orthogonal")


def layer_norm(x: Tensor) -> Tensor:
    """LayerNorm over the last axis, without learned scale and shift."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=EPS)


def _xavier(dim: int, rng: np.random.Generator) -> np.ndarray:
    bound = (6 / (2 * dim)) ** 0.5
    return rng.uniform(-bound, bound, size=(dim, dim))


def _orthogonal(dim: int, rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    return q * np.sign(np.diag(r))
