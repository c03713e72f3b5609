"""Learned: samples in memory, placed in shards, and the model of them; an immutable value.

The workspace does the same on disk, with equal digests. This value keeps no history: it is what it would be if it had
been made of the samples that it holds now, in one step and in any order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shardgraph.errors import DuplicateSample, UnknownSample, check_list, some
from shardgraph.graph import Topology
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import train_group
from shardgraph.learn.inca import Adapters
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples, concatenate


@dataclass(frozen=True)
class Learned:
    """What was learned of the samples that are held.

    classes      the class list that decides the placement, sorted; it is given, not collected
    shards       the samples of each shard that holds some, in canonical order
    adapters     those of each group that has something to learn
    model        the model of adapters and prototypes; it is not pickled, but assembled again
    """

    topology: Topology
    recipe: Recipe
    seed: int
    classes: tuple[str, ...]
    shards: Mapping[str, Samples] = field(default_factory=dict)
    adapters: Mapping[str, Adapters] = field(default_factory=dict)
    prototypes: Prototypes = field(default_factory=Prototypes)
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        model = Model.assemble(self.adapters, self.prototypes, self.recipe, self.seed)
        object.__setattr__(self, "model", model)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @classmethod
    def of(cls, samples: Samples, topology: Topology, recipe: Recipe, seed: int, classes: tuple[str, ...]) -> "Learned":
        """What is learned of these samples alone."""
        columns = samples.ids, samples.sources, samples.labels
        placed = topology.place_first(*columns, seed=seed, classes=classes)
        shards = {name: samples.take(rows).canonical() for name, rows in sorted(_by_shard(placed).items())}
        prototypes = total(shards.values(), second_order=recipe.second_order, expansion=recipe.expansion)
        return cls(topology, recipe, seed, classes, shards, _trained({}, topology, shards, recipe, seed), prototypes)

    def plus(self, samples: Samples) -> "Learned":
        """With these samples as well; their ids must be new."""
        if known := sorted(set(samples.ids) & {i for shard in self.shards.values() for i in shard.ids}):
            raise DuplicateSample(f"ids must be new, got {some(known)}, which the model has learned from", known)
        columns = samples.ids, samples.sources, samples.labels
        arriving = _by_shard(self.topology.place_all(*columns, seed=self.seed, classes=self.classes))
        shards = dict(self.shards)
        for name, rows in arriving.items():
            held = [shards[name]] if name in shards else []
            shards[name] = concatenate([*held, samples.take(rows)]).canonical()
        return self._changed(dict(sorted(shards.items())), self.prototypes.plus(samples), arriving)

    def without(self, ids: Iterable[Any]) -> "Learned":
        """Without these samples: equal to what is learned of the others."""
        leaving, prototypes, shards = self._rows(ids), self.prototypes, dict(self.shards)
        for name, rows in leaving.items():
            shard = shards.pop(name)
            prototypes = prototypes.minus(shard.take(rows))
            if len(rows) < len(shard):
                shards[name] = shard.take(np.setdiff1d(np.arange(len(shard)), rows))
        return self._changed(dict(sorted(shards.items())), prototypes, leaving)

    def plan(self, ids: Iterable[Any]) -> dict[str, Any]:
        """What `without` costs: the groups that it trains, and the samples that it reads again."""
        leaving = self._rows(ids)
        graph = self.topology.graph(self.shards)
        affected = graph.affected(leaving) if self.recipe.has_adapters else ()
        revisited = {shard for group in affected for shard in group.neighbourhood if shard in self.shards}
        count = sum(len(rows) for rows in leaving.values())
        samples = sum(len(self.shards[shard]) for shard in revisited) - count
        return {
            "samples": count,
            "groups_to_rebuild": len(affected),
            "samples_to_revisit": samples,
            "share_of_full_retraining": samples / len(self) if len(self) else 0.0,
        }

    def __len__(self) -> int:
        return sum(len(shard) for shard in self.shards.values())

    def _rows(self, ids: Iterable[Any]) -> dict[str, list[int]]:
        """The rows of these samples, by shard."""
        check_list(ids, "the samples to forget")
        wanted = {str(i) for i in ids}
        found = {
            name: [row for row, sample in enumerate(shard.ids) if sample in wanted]
            for name, shard in self.shards.items()
        }
        known = {self.shards[name].ids[row] for name, rows in found.items() for row in rows}
        if unknown := sorted(wanted - known):
            raise UnknownSample(f"never seen here, or forgotten already: {some(unknown)}", unknown)
        return {name: rows for name, rows in found.items() if rows}

    def _changed(self, shards: dict[str, Samples], prototypes: Prototypes, touched: Iterable[str]) -> "Learned":
        """With other samples in the shards `touched`; the groups that read one of them are trained again."""
        stale: set[str] = set()
        for graph in (self.topology.graph(self.shards), self.topology.graph(shards)):
            stale |= {group.name for group in graph.affected([name for name in touched if name in graph])}
        kept = {name: adapters for name, adapters in self.adapters.items() if name not in stale}
        adapters = _trained(kept, self.topology, shards, self.recipe, self.seed)
        return replace(self, shards=shards, adapters=adapters, prototypes=prototypes)


def _trained(
    kept: Mapping[str, Adapters], topology: Topology, shards: Mapping[str, Samples], recipe: Recipe, seed: int
) -> dict[str, Adapters]:
    """The adapters of all groups that have something to learn, those of `kept` as they are."""
    adapters = dict(kept)
    if not recipe.has_adapters:
        return adapters
    for group in topology.graph(shards).groups():
        parts = [shards[name] for name in group.neighbourhood if name in shards]
        mine = {label for name in group.members if name in shards for label in shards[name].labels}
        if group.name in adapters or not mine or len({label for part in parts for label in part.labels}) < 2:
            continue
        adapters[group.name] = train_group(group.name, concatenate(parts), tuple(sorted(mine)), recipe, seed)
    return adapters


def _by_shard(placed: Iterable[str]) -> dict[str, list[int]]:
    """The rows of each shard, from the shard of each row."""
    rows: dict[str, list[int]] = {}
    for row, shard in enumerate(placed):
        rows.setdefault(shard, []).append(row)
    return rows
