"""The ensemble: all adapters of all groups in one forward pass, mixed with the prototypes.

    M(z)_k = mean of the logits of all adapters for class k          (paper, section 5)
    SAFE(z) = (1 - lambda) M(z) + lambda Proto(z),  lambda = exp(-m / 100)    (paper, section 6)

m is the mean number of samples that an adapter was trained on. With second-order prototypes both parts are
standardised per sample first, and lambda = 0.7 + 0.3 exp(-p / 100), p the number of samples an adapter, unless the
recipe has a constant. A class without a sample left is not predicted; one without an adapter (its groups hold nothing
to compare it with) is left to the prototypes.

All adapters of all groups in one pass over a sample, prepared once per model.

What depends on the adapters alone (the queries' LayerNorm and projection, the heads' centring) is done when the
model is assembled. Samples go one at a time: all that a sample needs then stays in the caches. Adapters lie side by
side, so that sums over tokens and dimensions run along memory, and every sample's numbers lie where the last one's did.
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

from shardgraph.digest import digest, merkle_root
from shardgraph.errors import WorkspaceError
from shardgraph.learn import inca
from shardgraph.learn.adapters import Adapters
from shardgraph.learn.discriminant import discriminant
from shardgraph.learn.inca import EPS, WIDTHS, Attention, frozen_attention, layer_norm
from shardgraph.learn.prototypes import Prototypes
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

CHUNK = 64  # samples in one forward pass
Logits = Callable[[Samples], Tensor]


def mixing_weight(groups: Sequence[tuple[int, int]], recipe: Recipe) -> float:
    """lambda, from (samples, adapters) of every group; recomputed from what is retained at every build."""
    if not recipe.prototypes:
        return 0.0
    adapters = sum(count for _, count in groups)
    if recipe.second_order:
        each = sum(samples for samples, _ in groups) / max(adapters, 1)
        return 0.7 + 0.3 * math.exp(-each / 100) if recipe.mixing is None else recipe.mixing
    return math.exp(-sum(samples * count for samples, count in groups) / adapters / 100) if adapters else 1.0


def model_digest(groups: Mapping[str, str], prototypes: str, classes: tuple[str, ...], weight: float) -> str:
    """The Merkle root over names and digests of adapters, prototypes, class list and lambda: no secret in it."""
    leaves = [digest("group", name, groups[name]) for name in sorted(groups)]
    rest = [digest("prototypes", prototypes), digest("classes", *classes), digest("lambda", weight.hex())]
    return merkle_root([*leaves, *rest])


@dataclass(frozen=True)
class Model:
    """A served model: immutable, in memory, complete."""

    classes: tuple[str, ...]
    recipe: Recipe
    voices: Logits | None  # the logits [n, A] of all adapters; None if there is none
    average: Tensor  # [A, K] the mean over a class's adapters
    voiced: Tensor  # [K] whether the class has an adapter
    similarity: Callable[[Samples], Tensor]  # the prototypes' scores [n, K]
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
        """The model of these parts; a function of them alone. Its adapters answer on `device`.

        `similarity` is that of another model with the same prototypes and recipe, to save making it again.
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
            voices=voices_of(groups, recipe, seed, device),
            average=hot / count.clamp(min=1),
            voiced=count > 0,
            similarity=similarity or _similarity(prototypes, recipe),
            weight=weight,
            digest=model_digest({n: a.digest for n, a in adapters.items()}, prototypes.digest, classes, weight),
        )

    def scores(self, samples: Samples) -> np.ndarray:
        """SAFE(z) for every sample and class [n, K] float32."""
        if not self.classes:
            raise WorkspaceError("the model knows no class: nothing is trained, or everything was forgotten")
        with torch.no_grad():
            parts = [self.answer(chunk, self.voices and self.voices(chunk)) for chunk in chunks(samples)]
        return torch.cat(parts).numpy() if parts else np.zeros((0, len(self.classes)), np.float32)

    def predict(self, samples: Samples) -> list[str]:
        """The class with the highest score, for every sample."""
        return [self.classes[i] for i in self.scores(samples).argmax(axis=1).tolist()]

    def answer(self, samples: Samples, voices: Tensor | None) -> Tensor:
        """SAFE(z) [n, K], given what the adapters say [n, A]; None where there are none."""
        similarity = self.similarity(samples)
        return similarity if voices is None else self.mix(voices @ self.average, similarity)

    def mix(self, logits: Tensor, similarity: Tensor) -> Tensor:
        """The scores [n, K], from the ensemble's mean logits and the prototypes' scores."""
        neutral = logits[:, self.voiced].mean(dim=1, keepdim=True)  # where no adapter speaks, prototypes decide
        logits = torch.where(self.voiced, logits, neutral)
        if self.recipe.second_order:
            logits, similarity = _standardised(logits), _standardised(similarity)
        return (1 - self.weight) * logits + self.weight * similarity


def _similarity(prototypes: Prototypes, recipe: Recipe) -> Callable[[Samples], Tensor]:
    if recipe.second_order and prototypes.classes:
        return discriminant(prototypes, recipe.shrinkage).scores
    vectors = torch.from_numpy(prototypes.vectors())
    return lambda samples: torch.nn.functional.normalize(torch.from_numpy(samples.features), dim=1) @ vectors.T


def _standardised(scores: Tensor) -> Tensor:
    """Mean 0 and spread 1 over a sample's classes."""
    centred = scores - scores.mean(dim=1, keepdim=True)
    return centred / centred.square().mean(dim=1, keepdim=True).sqrt().clamp(min=1e-12)


def voices_of(groups: Sequence[Adapters], recipe: Recipe, seed: int, device: str) -> Logits | None:
    """What all adapters of these groups say, in their order, in one pass; None if there are none."""
    if not groups:
        return None
    first = torch.from_numpy(np.concatenate([group.first for group in groups]))
    second = torch.from_numpy(np.concatenate([group.second for group in groups]))
    if recipe.adapter == "linear":
        return lambda samples: layer_norm(torch.from_numpy(samples.features)) @ first.T + second
    attention = frozen_attention(first.shape[1], recipe, seed)
    if device == "cpu" or recipe.projection != "identity":
        return Voices.prepare(first, second, attention).logits
    voices = Voices.prepare(first.to(device), second.to(device), attention)
    return lambda samples: voices.logits(samples).cpu()


def chunks(samples: Samples) -> Iterator[Samples]:
    """The samples, as many at a time as go through one forward pass."""
    for start in range(0, len(samples), CHUNK):
        yield samples.take(np.arange(start, min(start + CHUNK, len(samples))))


if TYPE_CHECKING:
    from shardgraph.learn.cuda.training import KeysOnDevice

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
        from shardgraph.learn.cuda.training import lay_out  # needs Triton, which only comes with a GPU

        return lay_out([samples], self.attention.heads, str(self.queries.device))

    def answer_fused(self, keys: "KeysOnDevice") -> Tensor:
        """y [n, A] from keys, by the GPU's kernels."""
        from shardgraph.learn.cuda.inference import answer

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
