"""LegoNet's select-and-average: each sample trains the sub-model with the nearest key; the nearest few predict.

Keys are fixed random directions in the space of the pooled features, so a sample's shard depends on the sample alone.
At inference the k sub-models with the nearest keys are averaged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from experiments.training import train_many
from shardgraph.digest import generator
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import GroupInputs
from shardgraph.learn.inca import Adapters
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples


@dataclass(frozen=True)
class Lego:
    """Sub-models by key; immutable."""

    keys: np.ndarray  # [n, F] unit vectors
    shards: Mapping[str, Samples]
    adapters: Mapping[str, Adapters]
    prototypes: Prototypes
    recipe: Recipe
    seed: int
    device: str
    nearest: int

    @classmethod
    def fit(cls, train: Samples, n: int, nearest: int, recipe: Recipe, seed: int, device: str = "cpu") -> "Lego":
        """Train n sub-models, of which the `nearest` nearest predict."""
        recipe = replace(recipe, method="safe", prototypes=False)
        draws = generator(seed, "lego-keys", n).standard_normal((n, train.features.shape[1]))
        keys = draws / np.linalg.norm(draws, axis=1, keepdims=True)
        nearest_key = (_unit(train) @ keys.T).argmax(axis=1)
        shards = {
            f"k{i}": train.take(np.flatnonzero(nearest_key == i)).canonical() for i in sorted(set(nearest_key.tolist()))
        }
        empty = cls(keys, shards, {}, total([train]), recipe, seed, device, nearest)
        return empty._trained(shards)

    def forget(self, ids: Iterable[str]) -> tuple["Lego", int]:
        """The model without these samples, and the number of samples read for it, the forgotten ones included."""
        gone = set(ids)
        old = {name: own for name, own in self.shards.items() if not gone.isdisjoint(own.ids)}
        rows = {name: [i for i, sample in enumerate(own.ids) if sample not in gone] for name, own in old.items()}
        new = {name: own.take(rows[name]) for name, own in old.items() if rows[name]}
        prototypes = self.prototypes
        for own in old.values():
            prototypes = prototypes.minus(own.take([i for i, sample in enumerate(own.ids) if sample in gone]))
        kept = {name: own for name, own in self.shards.items() if name not in old}
        left = replace(self, prototypes=prototypes, shards=kept | new)
        left = replace(left, adapters={name: a for name, a in self.adapters.items() if name not in old})
        return left._trained(new), sum(map(len, old.values()))

    def cost(self) -> float:
        """The expected number of samples read again to forget one."""
        sizes = [len(own) for own in self.shards.values()]
        return sum(size * size for size in sizes) / sum(sizes)

    def storage(self) -> int:
        """Bytes of all sub-models."""
        return sum(len(adapters.to_bytes()) for adapters in self.adapters.values())

    def predict(self, samples: Samples) -> list[str]:
        """The predicted class of every sample."""
        model = Model.assemble(self.adapters, self.prototypes, self.recipe, self.seed, self.device)
        if model.adapter_logits is None:
            return model.predict(samples)
        names = sorted(self.adapters)
        owners = [names.index(name) for name in names for _ in self.adapters[name].classes]
        near = torch.from_numpy(_unit(samples) @ self.keys[[int(name[1:]) for name in names]].T)
        chosen = torch.zeros_like(near).scatter_(1, near.topk(min(self.nearest, len(names))).indices, 1.0)
        logits, used = model.adapter_logits(samples), chosen[:, owners].float()
        hot = (model.average > 0).float()
        count = used @ hot
        mean = torch.where(count > 0, (logits * used) @ hot / count.clamp(min=1), -torch.inf)
        return [model.classes[i] for i in mean.argmax(dim=1).tolist()]

    def _trained(self, shards: Mapping[str, Samples]) -> "Lego":
        inputs = [GroupInputs(name, own, tuple(sorted(set(own.labels)))) for name, own in shards.items()]
        inputs = [group for group in inputs if len(group.classes) > 1]
        trained = zip(inputs, train_many(inputs, self.recipe, self.seed, self.device), strict=True)
        return replace(self, adapters={**self.adapters, **{group.name: adapters for group, adapters in trained}})


def _unit(samples: Samples) -> np.ndarray:
    features = samples.features.astype(np.float64)
    unit: np.ndarray = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return unit
