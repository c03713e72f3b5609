"""Gradients of single samples in closed form: their norms and weighted sums, with few tensors per sample and adapter.

Shapes are those of `learn.inca`; an adapter has k rows of parameters: query and head, or one weight.

For Open-InCA, sample i and adapter a, with g = d loss / d logit, e the embedding before the last LayerNorm:

    head    g scale (e - mean e), whose squared norm is g^2 D (1 - eps scale^2)
    query   J_a h with h = Wq (sum_t dscore_t k_t) / sqrt(d), J_a the Jacobian of the query's LayerNorm, so that
            |J h|^2 = s^2 (|h|^2 - (h.1)^2 / D - (h.n)^2 (2 - rho) / D),  n = LN(q), rho = |n|^2 / D
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from shardgraph.learn.inca import EPS, Attention, Forward, Keys, forward


class SampleGradients(Protocol):
    """The gradients of a batch's samples, kept apart."""

    @property
    def squared(self) -> Tensor:
        """[B, C] squared norms, one per sample and adapter."""
        ...

    def weighted(self, weights: Tensor) -> Tensor:
        """[k, C, D]: the sum over the batch of weights [B, C] times gradients."""
        ...


def clip_weights(squared: Tensor, owners: Tensor, clip: float) -> Tensor:
    """[B, C] factors that bring each sample's gradient, jointly over each owner's adapters, to norm `clip` at most.

    owners [C]   the owner of each adapter. Adapters of several owners are never clipped jointly: the factor would
                 carry what one owner learned directly into another's adapters, past the noise.
    A gradient that is not finite gets weight 0. A thousandth is left for the rounding of float32 sums.
    """
    joint = squared.new_zeros(len(squared), int(owners.max()) + 1).index_add_(1, owners, squared)
    factors = (clip * 0.999 * joint.rsqrt()).clamp(max=1.0)
    return torch.where(joint.isfinite(), factors, 0.0)[:, owners]


@dataclass(frozen=True)
class LinearGradients:
    """Linear adapters: the gradient of sample i is g_ia x_i."""

    slope: Tensor  # [B, C] d loss / d logit
    inputs: Tensor  # [B, D]

    @property
    def squared(self) -> Tensor:
        squares: Tensor = self.slope.square() * torch.linalg.vecdot(self.inputs, self.inputs).unsqueeze(1)
        return squares

    def weighted(self, weights: Tensor) -> Tensor:
        scaled: Tensor = _cleared(self.slope, weights) * weights
        return scaled.T.mm(_finite(self.inputs)).unsqueeze(0)


@dataclass(frozen=True)
class OwnedGradients:
    """Linear adapters whose owners see the same samples each in directions of their own."""

    slope: Tensor  # [B, C] d loss / d logit
    inputs: list[Tensor]  # [B, r] of each owner
    adapters: list[Tensor]  # of each owner, which of the C

    @property
    def squared(self) -> Tensor:
        squares = self.slope.square()
        for inputs, mine in zip(self.inputs, self.adapters, strict=True):
            squares[:, mine] *= torch.linalg.vecdot(inputs, inputs).unsqueeze(1)
        return squares

    def weighted(self, weights: Tensor) -> Tensor:
        total = self.slope.new_zeros(1, self.slope.shape[1], self.inputs[0].shape[1])
        scaled = _cleared(self.slope, weights) * weights
        for inputs, mine in zip(self.inputs, self.adapters, strict=True):
            total[0, mine] = scaled[:, mine].T @ _finite(inputs)
        return total


@dataclass(frozen=True)
class IncaGradients:
    """Open-InCA adapters: d logit / d (query, head), before the query's LayerNorm, and the slope of the loss."""

    slope: Tensor  # [B, C] d loss / d logit
    queries: Tensor  # [H, B, C, d] d loss / d (scaled query)
    done: Forward
    jacobian: "QueryJacobian"
    attention: Attention

    @property
    def squared(self) -> Tensor:
        heads = self.slope.square() * self.attention.dim * (1 - EPS * self.done.scale.square())
        return heads + self.jacobian.squared(self.queries)

    def weighted(self, weights: Tensor) -> Tensor:
        queries = torch.einsum("bc,hbcd->chd", weights, _cleared(self.queries, weights.unsqueeze(-1)))
        scaled = weights * _cleared(self.slope * self.done.scale, weights)
        heads = torch.einsum("bc,bcd->cd", scaled, _cleared(self.done.embedded, weights.unsqueeze(-1)))
        return torch.stack([self.jacobian(queries.flatten(1)), self.attention.unfold_head_grad(heads)])


def inca_gradients(q: Tensor, v: Tensor, batch: Keys, used: Tensor, hot: Tensor, attention: Attention) -> IncaGradients:
    """Per-sample gradients of the binary losses, with targets `hot` [B, C], where `used` [B, C] is true."""
    heads, size, tokens, dim = batch.keys.shape
    done = forward(q, v, batch, attention)
    slope = torch.where(used, torch.sigmoid(done.logits) - hot, 0.0)
    head = attention.fold_head(v)
    # back to the attention's output, as in inca.backward, but sample by sample to the end
    shrink = (slope * done.logits * done.scale.square()).unsqueeze(-1)
    centred = done.embedded / attention.dim - done.mean.unsqueeze(-1) * attention.column_mean(head)
    grad = torch.addcmul((slope * done.scale).unsqueeze(-1) * head, shrink, centred, value=-1)
    if attention.wo is not None and not attention.folded:
        grad = grad @ attention.wo.T
    outputs = grad.view(size, -1, heads, dim).permute(2, 0, 1, 3).contiguous()
    values = batch.values.view(heads * size, tokens, dim)
    weights = torch.bmm(outputs.view(heads * size, -1, dim), values.mT).view_as(done.weights)
    scores = weights.sub_(torch.linalg.vecdot(outputs, done.outputs).unsqueeze(-1)).mul_(done.weights)
    queries = torch.bmm(scores.view(heads * size, -1, tokens), batch.keys.view(heads * size, tokens, dim))
    return IncaGradients(slope, queries.view_as(outputs), done, QueryJacobian(q, attention), attention)


class QueryJacobian:
    """From the gradient of a scaled, projected query back through scaling, Wq and LayerNorm, and the norm of that."""

    def __init__(self, q: Tensor, attention: Attention) -> None:
        self.attention = attention
        centred = q - q.mean(dim=-1, keepdim=True)
        self.scale = (centred.square().mean(dim=-1, keepdim=True) + EPS).rsqrt()  # [C, 1]
        self.normed = centred * self.scale  # [C, D]
        self.shrink: float = attention.head_dim**-0.5

    def __call__(self, grad: Tensor) -> Tensor:
        """[C, D] -> [C, D]: the gradient with respect to q."""
        grad = grad * self.shrink
        grad = grad if self.attention.wq is None else grad @ self.attention.wq.T
        along = (grad * self.normed).mean(dim=-1, keepdim=True)
        return self.scale * (grad - grad.mean(dim=-1, keepdim=True) - self.normed * along)

    def squared(self, grad: Tensor) -> Tensor:
        """[H, B, C, d] -> [B, C]: the squared norms of what `__call__` would give for each sample, from above."""
        wq, dim = self.attention.wq, self.attention.dim
        ones, normed = torch.ones_like(self.normed[:1]), self.normed
        if wq is not None:
            ones, normed = ones @ wq, normed @ wq
        along_ones = torch.linalg.vecdot(grad, self._heads(ones)).sum(0)
        along_normed = torch.linalg.vecdot(grad, self._heads(normed)).sum(0)
        rho = self.normed.square().mean(dim=-1)
        lost = (along_ones.square() + along_normed.square() * (2 - rho)) / dim
        slack = 1 + 32 * torch.finfo(grad.dtype).eps  # the difference may cancel; an error must not clip less
        squares: Tensor = (self.scale.squeeze(-1) * self.shrink).square() * (self._size(grad) * slack - lost).clamp(
            min=0
        )
        return squares

    def _heads(self, rows: Tensor) -> Tensor:
        """[C, D] -> [H, 1, C, d]."""
        heads = rows.view(len(rows), self.attention.heads, self.attention.head_dim)
        return heads.transpose(0, 1).unsqueeze(1)

    def _size(self, grad: Tensor) -> Tensor:
        """|Wq h|^2 per sample and adapter; an orthogonal Wq changes no norm, and folded means orthogonal."""
        if self.attention.wq is None or self.attention.folded:
            size: Tensor = torch.linalg.vecdot(grad, grad).sum(0)
            return size
        laid = grad.permute(1, 2, 0, 3).flatten(2) @ self.attention.wq.T
        size = torch.linalg.vecdot(laid, laid)
        return size


def _finite(inputs: Tensor) -> Tensor:
    """Inputs with zeros in rows that are not finite, whose weights are 0."""
    return torch.where(inputs.isfinite().all(dim=1, keepdim=True), inputs, 0.0)


def _cleared(x: Tensor, weights: Tensor) -> Tensor:
    """x with zeros where the weight is 0: what is not finite must not come back as 0 times infinity."""
    return torch.where(weights == 0, 0.0, x) if bool((weights == 0).any()) else x
