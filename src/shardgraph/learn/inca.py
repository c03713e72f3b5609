"""Open-InCA adapters: a query and a head for each class, over one frozen cross-attention (paper, appendix A).

    K = LN(z) Wk    V = LN(z) Wv    Q = LN(q) Wq    e = LN(concat_h softmax(Q_h K_h' / sqrt(d)) V_h  Wo)
    y = v . e

All adapters share the frozen matrices; only the query q and the head v are trained. Forward and backward pass are
written in closed form. Two facts about the frozen matrices save most of the arithmetic:

* v . LN(o Wo) needs no product o Wo when Wo is orthogonal, because then |o Wo| = |o|:
  v . LN(o Wo) = (o . Wo (v - mean v)) / sqrt(|o|^2 / D - (o . w)^2 + eps), where w is the mean of Wo's columns.
* With identity matrices, keys and values are one tensor.

`Adapters` is the result of training one group; it has one canonical encoding in bytes. `model_digest` is the digest of
a model.

Shapes: n samples, B samples of a batch, T tokens (padded), H heads of d dimensions, D = H d, C adapters.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shardgraph.digest import Raw, digest, generator, merkle_root
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples, pack, pack_strings, unpack, unpack_strings

EPS = 1e-5  # of every LayerNorm
WIDTHS = (16, 32, 64, 128)  # head dimensions that the GPU kernels support


# The result of a training


@dataclass(frozen=True)
class Adapters:
    """The adapters of a group, one per class: a query and a head (inca), or a weight and a bias (linear).

    classes     the labels, sorted
    first       [C, D] float32   queries, or weights
    second      [C, D] or [C] float32   heads, or biases
    samples     the number of samples they were trained on
    """

    kind: str
    classes: tuple[str, ...]
    first: np.ndarray
    second: np.ndarray
    samples: int

    def to_bytes(self) -> bytes:
        """The bytes of a safetensors file; equal values have equal bytes."""
        names = ("queries", "heads") if self.kind == "inca" else ("weights", "biases")
        tensors = {names[0]: self.first, names[1]: self.second, "samples": np.array([self.samples], np.int64)}
        return pack(tensors | pack_strings("classes", self.classes))

    @classmethod
    def from_bytes(cls, raw: Raw) -> "Adapters":
        """The value that `to_bytes` wrote."""
        tensors = unpack(raw)
        kind = "inca" if "queries" in tensors else "linear"
        first, second = ("queries", "heads") if kind == "inca" else ("weights", "biases")
        classes = unpack_strings("classes", tensors)
        return cls(kind, classes, tensors[first], tensors[second], int(tensors["samples"][0]))

    @property
    def digest(self) -> str:
        return digest(self.to_bytes())


def model_digest(groups: Mapping[str, str], prototypes: str, classes: tuple[str, ...], weight: float) -> str:
    """The Merkle root over names and digests of adapters, prototypes, class list and lambda; it holds no secret."""
    leaves = [digest("group", name, groups[name]) for name in sorted(groups)]
    rest = [digest("prototypes", prototypes), digest("classes", *classes), digest("lambda", weight.hex())]
    return merkle_root([*leaves, *rest])


# The frozen attention


@dataclass(frozen=True)
class Attention:
    """The frozen matrices; None stands for the identity. If `folded`, Wo is orthogonal and is never applied."""

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
        """The head in the space of the attention's output: centred, and multiplied by Wo where Wo is folded."""
        centred = v - v.mean(dim=-1, keepdim=True)
        return centred @ self.wo.T if self.folded and self.wo is not None else centred

    def unfold_head_grad(self, grad: Tensor) -> Tensor:
        """The gradient with respect to v, given the gradient with respect to `fold_head(v)`."""
        grad = grad @ self.wo if self.folded and self.wo is not None else grad
        return grad - grad.mean(dim=-1, keepdim=True)


def frozen_attention(dim: int, recipe: Recipe, seed: int, dtype: torch.dtype = torch.float32) -> Attention:
    """The attention of this recipe and seed; it depends on nothing else."""
    heads = recipe.head_count(dim)
    if recipe.projection == "identity":
        return Attention(dim, heads, None, None, None, None, folded=True)
    draw = _orthogonal if recipe.projection == "orthogonal" else _xavier
    wq, wk, wv, wo = (
        torch.from_numpy(draw(dim, generator(seed, "attention", name))).to(dtype) for name in ("q", "k", "v", "o")
    )
    return Attention(dim, heads, wq, wk, wv, wo, folded=recipe.projection == "orthogonal")


@dataclass(frozen=True)
class Keys:
    """Projected tokens, laid out so that each head is one matrix product.

    keys, values   [H, n, T, d]; one tensor if nothing is projected
    bias           [n, T], 0 for a token and -inf for padding; None if no sample is padded
    """

    keys: Tensor
    values: Tensor
    bias: Tensor | None

    def take(self, rows: Tensor) -> "Keys":
        """A copy of the keys of the samples in `rows`."""
        keys = self.keys.index_select(1, rows)
        values = keys if self.values is self.keys else self.values.index_select(1, rows)
        return Keys(keys, values, None if self.bias is None else self.bias.index_select(0, rows))


def project(samples: Samples, attention: Attention, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Keys:
    """The keys and values of all samples."""
    lengths = np.diff(samples.offsets)
    n, longest = len(samples), int(lengths.max(initial=1))
    normed = layer_norm(torch.from_numpy(samples.tokens).to(device).to(dtype))
    keys = by_head(normed if attention.wk is None else normed @ attention.wk, attention)
    values = keys if attention.wv is None else by_head(normed @ attention.wv, attention)
    if (lengths == longest).all():
        bias = None
        laid = [x.view(attention.heads, n, longest, attention.head_dim) for x in (keys, values)]
    else:
        real = (torch.arange(longest) < torch.from_numpy(lengths).unsqueeze(1)).to(device)  # [n, T]
        bias = torch.zeros(n, longest, dtype=dtype, device=device).masked_fill_(~real, -torch.inf)
        laid = [x.new_zeros(attention.heads, n, longest, attention.head_dim) for x in (keys, values)]
        for padded, x in zip(laid, (keys, values), strict=True):
            padded[:, real] = x
    return Keys(laid[0], laid[0] if values is keys else laid[1], bias)


# Forward and backward pass


@dataclass(frozen=True)
class Forward:
    """The logits [B, C] of a batch, and what the backward pass needs."""

    logits: Tensor
    weights: Tensor  # [H, B, C, T] attention
    outputs: Tensor  # [H, B, C, d] attended values
    embedded: Tensor  # [B, C, D] before the last LayerNorm
    scale: Tensor  # [B, C] 1 / standard deviation of `embedded`
    mean: Tensor  # [B, C] of `embedded`


def forward(q: Tensor, v: Tensor, batch: Keys, attention: Attention) -> Forward:
    """y_i = v_i . LN(attention(z, LN(q_i))) for every adapter i and every sample of the batch."""
    heads, size, tokens, dim = batch.keys.shape
    queries = scaled_queries(q, attention)  # [H, C, d]
    scores = torch.bmm(queries, batch.keys.view(heads, size * tokens, dim).mT)
    scores = scores.view(heads, -1, size, tokens).transpose(1, 2)  # [H, B, C, T]
    if batch.bias is not None:
        scores = scores + batch.bias[None, :, None, :]
    weights = torch.softmax(scores.contiguous(), dim=-1)
    attended = torch.bmm(weights.view(heads * size, -1, tokens), batch.values.view(heads * size, tokens, dim))
    outputs = attended.view(heads, size, -1, dim)
    embedded = outputs.permute(1, 2, 0, 3).reshape(size, -1, heads * dim)
    if attention.wo is not None and not attention.folded:
        embedded = embedded @ attention.wo
    mean = embedded @ attention.column_mean(embedded)
    square = torch.linalg.vecdot(embedded, embedded)
    scale = (square / attention.dim - mean * mean + EPS).rsqrt()
    logits = torch.linalg.vecdot(embedded, attention.fold_head(v)) * scale
    return Forward(logits, weights, outputs, embedded, scale, mean)


def backward(
    grad: Tensor, q: Tensor, v: Tensor, batch: Keys, done: Forward, attention: Attention
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to q and v, given the gradient with respect to the logits."""
    heads, size, tokens, dim = batch.keys.shape
    head = attention.fold_head(v)
    scaled = (grad * done.scale).unsqueeze(-1)
    grad_head = (scaled * done.embedded).sum(dim=0)
    shrink = (grad * done.logits * done.scale * done.scale).unsqueeze(-1)
    centred = done.embedded / attention.dim - done.mean.unsqueeze(-1) * attention.column_mean(head)
    grad_embedded = scaled * head - shrink * centred
    if attention.wo is not None and not attention.folded:
        grad_embedded = grad_embedded @ attention.wo.T
    grad_outputs = grad_embedded.view(size, -1, heads, dim).permute(2, 0, 1, 3).contiguous()
    values = batch.values.view(heads * size, tokens, dim)
    grad_weights = torch.bmm(grad_outputs.view(heads * size, -1, dim), values.mT).view_as(done.weights)
    inner = torch.linalg.vecdot(grad_outputs, done.outputs).unsqueeze(-1)
    grad_scores = (done.weights * (grad_weights - inner)).transpose(1, 2)  # [H, C, B, T]
    keys = batch.keys.view(heads, size * tokens, dim)
    grad_queries = torch.bmm(grad_scores.reshape(heads, -1, size * tokens), keys)
    return _query_gradient(grad_queries, q, attention), attention.unfold_head_grad(grad_head)


def layer_norm(x: Tensor) -> Tensor:
    """LayerNorm over the last axis, without learned scale and shift."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=EPS)


def by_head(x: Tensor, attention: Attention) -> Tensor:
    """[n, D] -> [H, n, d], contiguous."""
    return x.view(-1, attention.heads, attention.head_dim).transpose(0, 1).contiguous()


def scaled_queries(q: Tensor, attention: Attention) -> Tensor:
    """LN(q) Wq / sqrt(d), by head [H, C, d]."""
    x = layer_norm(q)
    queries: Tensor = by_head(x if attention.wq is None else x @ attention.wq, attention) * attention.head_dim**-0.5
    return queries


def _query_gradient(grad: Tensor, q: Tensor, attention: Attention) -> Tensor:
    """The gradient with respect to q [C, D], through scaling, Wq and the query's LayerNorm, from [H, C, d]."""
    grad = grad.transpose(0, 1).reshape(len(q), attention.dim) * attention.head_dim**-0.5
    grad = grad if attention.wq is None else grad @ attention.wq.T
    centred = q - q.mean(dim=-1, keepdim=True)
    scale = (centred.square().mean(dim=-1, keepdim=True) + EPS).rsqrt()
    normed = centred * scale
    along = normed * (grad * normed).mean(dim=-1, keepdim=True)
    result: Tensor = scale * (grad - grad.mean(dim=-1, keepdim=True) - along)
    return result


# Random matrices


def _xavier(dim: int, rng: np.random.Generator) -> np.ndarray:
    bound = (6 / (2 * dim)) ** 0.5
    return rng.uniform(-bound, bound, size=(dim, dim))


def _orthogonal(dim: int, rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    return q * np.sign(np.diag(r))
