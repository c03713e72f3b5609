"""Every method behind one interface: fit, predict, forget, cost. All learn from the same cached embeddings.

A rival is a method to compare: a way to cut the data into shards and a way to mix adapters and prototypes. All are
exact: `forget` retrains the groups that could have seen a sample, and gives the bytes of a `fit` without it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from experiments.training import train_many
from shardgraph.graph import Bilevel, Topology
from shardgraph.graph.cost import expected_cost, revisited_samples
from shardgraph.graph.shards import Group, ShardGraph
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import GroupInputs
from shardgraph.learn.inca import Adapters
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples, concatenate

Shape = tuple[int, int]  # (n_c, n_f)


@dataclass(frozen=True)
class Rival:
    """A method by name: how it cuts the data ("bilevel", "uniform", "whole", or not at all) and what it mixes in."""

    name: str
    cut: str | None
    mixes: str  # "nothing", "first" (the paper's prototypes) or "second"
    about: str

    def shape(self, bilevel: Shape) -> Shape | None:
        """(n_c, n_f) of this method where SAFE's is `bilevel`; None if it trains nothing."""
        shapes = {"bilevel": bilevel, "uniform": (bilevel[0] * bilevel[1], 1), "whole": (1, 1)}
        return None if self.cut is None else shapes[self.cut]

    def recipe(self, base: Recipe) -> Recipe:
        """The recipe with this method's mixing; the adapters' part of it stays."""
        method: Literal["second", "safe"] = "second" if self.mixes == "second" else "safe"
        return replace(base, name=self.name, method=method, prototypes=self.mixes != "nothing" or self.cut is None)

    def fit(self, train: Samples, bilevel: Shape, base: Recipe, seed: int, device: str = "cpu") -> "Fitted":
        """Learn from the samples."""
        shape = self.shape(bilevel)
        topology = Bilevel(*shape, "balanced") if shape else None
        return fit(train, topology, self.recipe(base), seed, device)


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("No sharding", "whole", "nothing", "one group that sees everything"),
        Rival("Prototypes", None, "first", "class means alone, the idea of ARCANE"),
        Rival("SISA", "uniform", "nothing", "uniform shards, n_f = 1"),
        Rival("ProtoSISA", "uniform", "first", "SISA with the paper's prototypes"),
        Rival("SAFE", "bilevel", "first", "the paper's method"),
        Rival("NoprotoSAFE", "bilevel", "nothing", "SAFE without prototypes"),
        Rival("Second order", None, "second", "second-order prototypes alone"),
        Rival("Ours", "bilevel", "second", "SAFE's graph with second-order prototypes: the default of `train`"),
        Rival("Ceiling", "whole", "second", "second-order prototypes and one group that sees everything"),
    )
}


@dataclass(frozen=True)
class Fitted:
    """A trained method; immutable. `shards` holds the retained samples, `adapters` the trained adapters, by group."""

    shards: Mapping[str, Samples]
    topology: Topology | None
    adapters: Mapping[str, Adapters]
    prototypes: Prototypes
    recipe: Recipe
    seed: int
    device: str

    @cached_property
    def model(self) -> Model:
        """The model of all adapters and prototypes."""
        return Model.assemble(self.adapters, self.prototypes, self.recipe, self.seed, self.device)

    def predict(self, samples: Samples) -> list[str]:
        """The predicted class of every sample."""
        return self.model.predict(samples)

    def forget(self, ids: Iterable[str]) -> tuple["Fitted", int]:
        """The method without these samples, and the number of samples read for it, the forgotten ones included."""
        gone = set(ids)
        touched = {name for name, shard in self.shards.items() if not gone.isdisjoint(shard.ids)}
        left = {name: _without(shard, gone) if name in touched else shard for name, shard in self.shards.items()}
        left = {name: shard for name, shard in left.items() if len(shard)}
        again = [group for group in self.groups if not touched.isdisjoint(group.neighbourhood)]
        gathered = [group for group in (_inputs(group, left) for group in again) if group]
        inputs = [group for group in gathered if _has_two_classes(group)]
        kept = {name: a for name, a in self.adapters.items() if name not in {group.name for group in again}}
        for group, adapters in zip(inputs, train_many(inputs, self.recipe, self.seed, self.device), strict=True):
            kept[group.name] = adapters
        prototypes = self.prototypes
        for name in touched:
            shard = self.shards[name]
            prototypes = prototypes.minus(shard.take([i for i, own in enumerate(shard.ids) if own in gone]))
        read = sum(len(group.samples) for group in gathered) + len(gone) if again else 0
        return replace(self, shards=left, adapters=kept, prototypes=prototypes), read

    def cost(self, sample: str | None = None) -> float:
        """|M_x|: samples read again to forget this sample, or the mean over all samples; predicted from the graph."""
        if self.topology is None:
            return 0.0
        sizes = {name: len(shard) for name, shard in self.shards.items()}
        if sample is None:
            return expected_cost(self.graph, sizes)
        shard_name = next(name for name, shard in self.shards.items() if sample in shard.ids)
        return revisited_samples(self.graph, sizes, shard_name)

    @property
    def graph(self) -> ShardGraph:
        """The shard graph."""
        assert self.topology is not None
        return self.topology.graph(self.shards)

    @property
    def groups(self) -> list[Group]:
        """Its groups; none where nothing is trained."""
        return list(self.graph.groups()) if self.topology else []


def fit(
    train: Samples,
    topology: Topology | None,
    recipe: Recipe,
    seed: int,
    device: str = "cpu",
    sums: Prototypes | None = None,
) -> Fitted:
    """Cut the samples, train every group, sum the prototypes (or take `sums` for them)."""
    shards = cut(train, topology, seed)
    sums = sums or total([train], second_order=recipe.second_order, expansion=recipe.expansion)
    empty = Fitted(shards, topology, {}, sums, recipe, seed, device)
    inputs = [inputs for group in empty.groups if (inputs := _inputs(group, shards)) and _has_two_classes(inputs)]
    trained = train_many(inputs, recipe, seed, device)
    return replace(empty, adapters={group.name: adapters for group, adapters in zip(inputs, trained, strict=True)})


def cut(train: Samples, topology: Topology | None, seed: int) -> dict[str, Samples]:
    """The samples by shard."""
    if topology is None:
        return {"all": train}
    classes = sorted(set(train.labels))
    places = topology.place_first(train.ids, train.sources, train.labels, seed=seed, classes=classes)
    rows: dict[str, list[int]] = {}
    for i, place in enumerate(places):
        rows.setdefault(place, []).append(i)
    return {place: train.take(own).canonical() for place, own in sorted(rows.items())}


def _inputs(group: Group, shards: Mapping[str, Samples]) -> GroupInputs | None:
    """What a group learns from; None where there is nothing."""
    parts = [shards[name] for name in group.neighbourhood if name in shards]
    labels = {label for name in group.members if name in shards for label in shards[name].labels}
    if not parts:
        return None
    samples = (parts[0] if len(parts) == 1 else concatenate(parts)).canonical()
    return GroupInputs(group.name, samples, tuple(sorted(labels)))


def _has_two_classes(group: GroupInputs) -> bool:
    """Whether the group has two classes; finding that out counts as reading its samples."""
    return len(set(group.samples.labels)) > 1


def _without(shard: Samples, gone: set[str]) -> Samples:
    return shard.take([i for i, own in enumerate(shard.ids) if own not in gone])
