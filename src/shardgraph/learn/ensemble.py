"""The served model: the adapters of all groups in one forward pass, mixed with the prototypes.

    M(z)_k = mean of the logits of all adapters for class k          (paper, section 5)
    SAFE(z) = (1 - lambda) M(z) + lambda Proto(z)                    (paper, section 6)

`recipe.mixing_weight` computes lambda. With second-order prototypes both parts are standardised per sample first. A
class without samples is not predicted; a class without an adapter (its groups hold no other class to compare it with)
is decided by the prototypes.

`PackedAdapters` holds what depends on the adapters alone (the queries' LayerNorm and projection, the centred heads),
computed once when the model is assembled. Samples are processed one at a time, so that the working set of a sample fits
the processor's caches. Adapters are contiguous in memory, so that sums over tokens and dimensions read memory in order,
and all samples use the same buffers.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from shardgraph.errors import WorkspaceError
from shardgraph.learn import inca
from shardgraph.learn.discriminant import discriminant
from shardgraph.learn.inca import EPS, WIDTHS, Adapters, Attention, frozen_attention, layer_norm, model_digest
from shardgraph.learn.prototypes import Prototypes
from shardgraph.learn.recipe import Recipe, mixing_weight
from shardgraph.storage.samples import Samples

if TYPE_CHECKING:
    from shardgraph.learn.cuda.training import KeysOnDevice

CHUNK = 64  # samples in one forward pass
SAFE_EXPONENT = 60.0  # exp(+-60) times thousands of tokens is finite and positive in float32
Logits = Callable[[Samples], Tensor]
"""From n samples to the logits [n, A] of A adapters."""


@dataclass(frozen=True)
class Model:
    """A complete model in memory; immutable.

    adapter_logits   the logits [n, A] of all adapters; None if there are none
    average          [A, K] the mean over the adapters of each class, as a matrix
    has_adapter      [K] whether a class has an adapter
    similarity       the prototypes' scores [n, K]
    weight           lambda
    """

    classes: tuple[str, ...]
    recipe: Recipe
    adapter_logits: Logits | None
    average: Tensor
    has_adapter: Tensor
    similarity: Callable[[Samples], Tensor]
    weight: float
    digest: str

    @classmethod
    def assemble(
        cls,
        adapters: Mapping[str, Adapters],
        prototypes: Prototypes,
        recipe: Recipe,
        seed: int,
        device: str = "cpu",
        similarity: Callable[[Samples], Tensor] | None = None,
    ) -> "Model":
        """The model of these parts; it depends on nothing else. Its adapters run on `device`.

        `similarity` may be that of another model with the same prototypes and recipe, which saves computing it again.
        """
        groups = [adapters[name] for name in sorted(adapters)]
        classes = prototypes.classes
        index = {label: i for i, label in enumerate(classes)}
        owners = torch.tensor([index[label] for group in groups for label in group.classes], dtype=torch.long)
        hot = torch.zeros(len(owners), len(classes)).index_put_((torch.arange(len(owners)), owners), torch.ones(()))
        count = hot.sum(dim=0)
        weight = mixing_weight([(g.samples, len(g.classes)) for g in groups], recipe)
        return cls(
            classes=classes,
            recipe=recipe,
            adapter_logits=pack_adapters(groups, recipe, seed, device),
            average=hot / count.clamp(min=1),
            has_adapter=count > 0,
            similarity=similarity or _similarity(prototypes, recipe),
            weight=weight,
            digest=model_digest({n: a.digest for n, a in adapters.items()}, prototypes.digest, classes, weight),
        )

    def scores(self, samples: Samples) -> np.ndarray:
        """SAFE(z) for every sample and class [n, K] float32."""
        if not self.classes:
            raise WorkspaceError("the model knows no class: nothing is trained, or everything was forgotten")
        with torch.no_grad():
            parts = [
                self.scores_from(chunk, self.adapter_logits and self.adapter_logits(chunk)) for chunk in chunks(samples)
            ]
        return torch.cat(parts).numpy() if parts else np.zeros((0, len(self.classes)), np.float32)

    def predict(self, samples: Samples) -> list[str]:
        """The class with the highest score, for every sample."""
        return [self.classes[i] for i in self.scores(samples).argmax(axis=1).tolist()]

    def scores_from(self, samples: Samples, logits: Tensor | None) -> Tensor:
        """SAFE(z) [n, K], given the logits [n, A] of the model's adapters, or None if it has none."""
        similarity = self.similarity(samples)
        return similarity if logits is None else self.mix(logits @ self.average, similarity)

    def mix(self, logits: Tensor, similarity: Tensor) -> Tensor:
        """SAFE(z) [n, K], given the mean logits of each class and the prototypes' scores."""
        neutral = logits[:, self.has_adapter].mean(dim=1, keepdim=True)  # so that the prototypes decide
        logits = torch.where(self.has_adapter, logits, neutral)
        if self.recipe.second_order:
            logits, similarity = _standardised(logits), _standardised(similarity)
        return (1 - self.weight) * logits + self.weight * similarity


def chunks(samples: Samples) -> Iterator[Samples]:
    """The samples, CHUNK at a time."""
    for start in range(0, len(samples), CHUNK):
        yield samples.take(np.arange(start, min(start + CHUNK, len(samples))))


def pack_adapters(groups: Sequence[Adapters], recipe: Recipe, seed: int, device: str) -> Logits | None:
    """The logits of all adapters of these groups, in their order, in one pass; None if there are no groups."""
    if not groups:
        return None
    first = torch.from_numpy(np.concatenate([group.first for group in groups]))
    second = torch.from_numpy(np.concatenate([group.second for group in groups]))
    if recipe.adapter == "linear":
        return lambda samples: layer_norm(torch.from_numpy(samples.features)) @ first.T + second
    attention = frozen_attention(first.shape[1], recipe, seed)
    if device == "cpu" or recipe.projection != "identity":
        return PackedAdapters.pack(first, second, attention).logits
    packed = PackedAdapters.pack(first.to(device), second.to(device), attention)
    return lambda samples: packed.logits(samples).cpu()


@dataclass(frozen=True)
class PackedAdapters:
    """A adapters, ready for inference: queries and heads by attention head [H, d, A], on the model's device."""

    queries: Tensor
    heads: Tensor
    column: Tensor  # [H, d, 1] the vector w with mean(o Wo) = o . w
    attention: Attention
    longest_query: float  # the largest norm of a query

    @classmethod
    def pack(cls, q: Tensor, v: Tensor, attention: Attention) -> "PackedAdapters":
        """The packed form of queries and heads [A, D]."""
        column = attention.column_mean(v).view(attention.heads, attention.head_dim, 1)
        heads = inca.by_head(attention.fold_head(v), attention).mT.contiguous()
        queries = inca.scaled_queries(q, attention).mT.contiguous()
        return cls(queries, heads, column, attention, float(queries.norm(dim=1).max()))

    def logits(self, samples: Samples) -> Tensor:
        """y [n, A] of every adapter on every sample."""
        if self.fused:
            return self.logits_fused(self.keys_fused(samples))
        return self.logits_of(self.keys(samples))

    @property
    def fused(self) -> bool:
        """Whether the GPU kernels support these adapters."""
        return self.queries.is_cuda and self.attention.wk is None and self.attention.head_dim in WIDTHS

    def keys(self, samples: Samples) -> inca.Keys:
        """The keys of the samples, on the device of the adapters."""
        return inca.project(samples, self.attention, self.queries.dtype, str(self.queries.device))

    def logits_of(self, keys: inca.Keys) -> Tensor:
        """y [n, A] from keys, one sample at a time."""
        means = torch.matmul(keys.values, self.column.unsqueeze(1))  # [H, n, T, 1]
        gathered = torch.cat([keys.values, means, torch.ones_like(means)], dim=-1).mT  # [H, n, d + 2, T]
        with torch.no_grad():
            return torch.stack([self._logits_of_one(keys, gathered[:, i], i) for i in range(keys.keys.shape[1])])

    def keys_fused(self, samples: Samples) -> "KeysOnDevice":
        """The keys of the samples, in the layout of the GPU kernels."""
        from shardgraph.learn.cuda.training import lay_out  # needs Triton, which only comes with a GPU

        return lay_out([samples], self.attention.heads, str(self.queries.device))

    def logits_fused(self, keys: "KeysOnDevice") -> Tensor:
        """y [n, A] from keys, by the GPU kernels."""
        from shardgraph.learn.cuda.inference import logits

        return logits(*self._rows, keys)

    @cached_property
    def _rows(self) -> tuple[Tensor, Tensor]:
        """Queries and heads [H, A, d], one row for each adapter, in the layout of the GPU kernels."""
        return self.queries.mT.contiguous(), self.heads.mT.contiguous()

    @cached_property
    def _buffers(self) -> "_Buffers":
        return _Buffers()

    def _logits_of_one(self, keys: inca.Keys, gathered: Tensor, i: int) -> Tensor:
        """y [A] of sample i; `gathered` holds its values, their means and ones.

        The softmax does not subtract the maximum where that is safe: no score exceeds the product of norms, so if that
        is small enough, the exponentials can neither overflow nor all vanish, and a pass over the scores is saved.
        """
        key, (heads, dim, adapters) = keys.keys[:, i], self.queries.shape
        weights = self._buffers.take("weights", (heads, key.shape[1], adapters), self.queries)
        torch.bmm(key, self.queries, out=weights)
        if keys.bias is not None:
            weights += keys.bias[i].unsqueeze(-1)
        if not self._bounded and self.longest_query * float(key.norm(dim=-1).max()) > SAFE_EXPONENT:
            weights -= weights.amax(dim=1, keepdim=True)
        found = self._buffers.take("found", (heads, dim + 2, adapters), self.queries)
        outputs, means, sums = torch.split(torch.bmm(gathered, weights.exp_(), out=found), [dim, 1, 1], dim=1)
        factor = sums.reciprocal()  # of the softmax: still to be applied to outputs and means
        if self.attention.wo is not None and not self.attention.folded:
            outputs = self._project_out(outputs * factor)
            means, factor = (outputs * self.column).sum(dim=1, keepdim=True), torch.ones_like(factor)
        product = torch.mul(outputs, self.heads, out=self._buffers.take("product", self.queries.shape, self.queries))
        dot = _total(product, factor)
        square = _total(torch.mul(outputs, outputs, out=product), factor.square())
        mean = _total(means, factor)
        return dot * (square / self.attention.dim - mean * mean + EPS).rsqrt()

    @property
    def _bounded(self) -> bool:
        """Whether no score can exceed SAFE_EXPONENT: LayerNorm bounds the norm of an unprojected token."""
        return self.attention.wk is None and self.longest_query * math.sqrt(self.attention.dim) <= SAFE_EXPONENT

    def _project_out(self, outputs: Tensor) -> Tensor:
        """outputs Wo, where Wo is not folded into the heads."""
        assert self.attention.wo is not None
        return (self.attention.wo.to(outputs).T @ outputs.flatten(0, 1)).view(outputs.shape)


def _similarity(prototypes: Prototypes, recipe: Recipe) -> Callable[[Samples], Tensor]:
    if recipe.second_order and prototypes.classes:
        return discriminant(prototypes, recipe.shrinkage).scores
    vectors = torch.from_numpy(prototypes.vectors())
    return lambda samples: torch.nn.functional.normalize(torch.from_numpy(samples.features), dim=1) @ vectors.T


def _standardised(scores: Tensor) -> Tensor:
    """The scores with mean 0 and standard deviation 1 over the classes of each sample."""
    centred = scores - scores.mean(dim=1, keepdim=True)
    return centred / centred.square().mean(dim=1, keepdim=True).sqrt().clamp(min=1e-12)


def _total(parts: Tensor, factor: Tensor) -> Tensor:
    """The sum over heads and dimensions [A] of parts [H, d, A], times `factor` [H, 1, A]."""
    return (parts.sum(dim=1, keepdim=True) * factor).sum(dim=(0, 1))


class _Buffers(threading.local):
    """Buffers that a thread reuses for the next sample: allocating memory would cost more than the arithmetic."""

    def __init__(self) -> None:
        self.kept: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor of this shape, in the memory of the last one of this name."""
        size = math.prod(shape)
        if name not in self.kept or self.kept[name].numel() < size:
            with torch.inference_mode(False):  # usable in and outside of inference mode
                self.kept[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return self.kept[name][:size].view(shape)
