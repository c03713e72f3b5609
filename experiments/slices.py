"""SISA with slices: a shard learns slice after slice; a forget goes back to the last stage before the slice it touches.

Slices are cut by a keyed hash of the id. Stage s has an optimiser, a schedule and classes of its own and learns from
slices 1 to s, starting where stage s - 1 ended: all are functions of those slices alone, else it would not be exact.
Stages are kept, so storage grows with their number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from experiments.rivals import cut
from experiments.training import train_many
from shardgraph.digest import keyed_hash
from shardgraph.graph import Bilevel
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import GroupInputs
from shardgraph.learn.inca import Adapters
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples, concatenate

Slices = tuple[Samples, ...]
Stages = tuple[Adapters | None, ...]


@dataclass(frozen=True)
class Sliced:
    """A sliced SISA ensemble; immutable. For each shard its slices, and its adapters after each stage."""

    shards: Mapping[str, Slices]
    stages: Mapping[str, Stages]
    prototypes: Prototypes
    recipe: Recipe
    seed: int
    device: str

    @classmethod
    def fit(cls, train: Samples, shards: int, slices: int, recipe: Recipe, seed: int, device: str = "cpu") -> "Sliced":
        """Train all stages; each has so many epochs that the whole costs as much as one training."""
        recipe = replace(recipe, method="safe", prototypes=False, epochs=max(2 * recipe.epochs // (slices + 1), 1))
        parts = {name: _slice(own, slices, seed) for name, own in cut(train, Bilevel(shards, 1), seed).items()}
        return cls(parts, {}, total([train]), recipe, seed, device)._learned(dict.fromkeys(parts, ()))[0]

    def forget(self, ids: Iterable[str]) -> tuple["Sliced", int]:
        """Without these samples, and how many were read to get there, once for each stage that read them."""
        gone, shards, kept, prototypes = set(ids), dict(self.shards), {}, self.prototypes
        for name, own in self.shards.items():
            touched = [i for i, part in enumerate(own) if not gone.isdisjoint(part.ids)]
            if not touched:
                continue
            shards[name] = tuple(_without(part, gone) for part in own)
            kept[name] = self.stages[name][: touched[0]]
            for part in own:
                prototypes = prototypes.minus(part.take([i for i, sample in enumerate(part.ids) if sample in gone]))
        return replace(self, shards=shards, prototypes=prototypes)._learned(kept)

    def cost(self) -> float:
        """The expected number of samples read to forget one, each as often as stages read it."""
        costs = []
        for own in self.shards.values():
            sizes = np.cumsum([len(part) for part in own])
            costs += [float(sizes[i:].sum()) for i, part in enumerate(own) for _ in part.ids]
        return sum(costs) / len(costs)

    def storage(self) -> int:
        """Bytes of all stages that are kept."""
        return sum(len(stage.to_bytes()) for own in self.stages.values() for stage in own if stage)

    def predict(self, samples: Samples) -> list[str]:
        """The predicted class of every sample, by the last stages."""
        last = {name: own[-1] for name, own in self.stages.items()}
        kept = {name: adapters for name, adapters in last.items() if adapters}
        return Model.assemble(kept, self.prototypes, self.recipe, self.seed, self.device).predict(samples)

    def _learned(self, kept: Mapping[str, Stages]) -> tuple["Sliced", int]:
        """With all stages of these shards, given their first ones; and how many samples were read for the others."""
        stages, read = dict(self.stages) | dict(kept), 0
        for s in range(max(len(own) for own in self.shards.values())):
            behind = [name for name in kept if len(stages[name]) == s]
            groups = [_stage(name, self.shards[name][: s + 1], stages[name]) for name in behind]
            enough = [group for group in groups if len(group.classes) > 1]
            trained = train_many(enough, self.recipe, self.seed, self.device)
            for name, group in zip(behind, groups, strict=True):
                stages[name] += (next(trained) if len(group.classes) > 1 else None,)
                read += len(group.samples)
        return replace(self, stages=stages), read


def _slice(samples: Samples, slices: int, seed: int) -> Slices:
    slice_of = np.array([keyed_hash(seed, "slice", sample) % slices for sample in samples.ids])
    return tuple(samples.take(np.flatnonzero(slice_of == s)) for s in range(slices))


def _stage(name: str, slices: Slices, done: Stages) -> GroupInputs:
    """What the stage after these learns from."""
    samples = concatenate(slices).canonical()
    return GroupInputs(f"{name}/{len(done)}", samples, tuple(sorted(set(samples.labels))), done[-1] if done else None)


def _without(samples: Samples, gone: set[str]) -> Samples:
    return samples.take([i for i, sample in enumerate(samples.ids) if sample not in gone])
