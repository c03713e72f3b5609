"""The ensemble: all adapters of all groups in one forward pass, mixed with the prototypes.

    M(z)_k = mean of the logits of all adapters for class k          (paper, section 5)
    SAFE(z) = (1 - lambda) M(z) + lambda Proto(z),  lambda = exp(-m / 100)    (paper, section 6)

m is the mean number of samples that an adapter was trained on. With second-order prototypes both parts are
standardised per sample first, and lambda = 0.7 + 0.3 exp(-p / 100), p the number of samples an adapter, unless the
recipe has a constant. A class without a sample left is not predicted; one without an adapter (its groups hold nothing
to compare it with) is left to the prototypes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shardgraph.data.samples import Samples
from shardgraph.digest import digest, merkle_root
from shardgraph.errors import WorkspaceError
from shardgraph.learn.adapters import Adapters
from shardgraph.learn.attention import frozen_attention, layer_norm
from shardgraph.learn.discriminant import discriminant
from shardgraph.learn.inference import Voices
from shardgraph.learn.prototypes import Prototypes
from shardgraph.learn.recipe import Recipe

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
