"""Topologies over n numbered shards, to which samples are assigned by a keyed hash."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from shardgraph.digest import keyed_hash
from shardgraph.graph import topologies
from shardgraph.graph.placement import Rule, Topology, check_present
from shardgraph.graph.shards import ShardGraph, check_whole


@dataclass(frozen=True)
class _Numbered(Topology):
    """The common part of both: shards 's0' to 's<n-1>', assigned by a hash of source and id."""

    shards: int

    def __post_init__(self) -> None:
        check_whole("shards", self.shards, 1)

    def _rule(self, seed: int, classes: tuple[str, ...]) -> Rule:
        names, n = self._names, self.shards
        return lambda sample_id, source, label: names[keyed_hash(seed, "shard", source, sample_id) % n]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return topologies.numbered_names(self.shards)


@dataclass(frozen=True)
class RandomDegree(_Numbered):
    """n shards, each of which learns from `degree` others, drawn once with `graph_seed`."""

    kind: ClassVar[str] = "random"
    degree: int
    graph_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("degree", self.degree, 0, self.shards - 1)
        check_whole("graph_seed", self.graph_seed, 0)

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """All n shards, with the edges that were drawn."""
        return check_present(self._drawn, present)

    @cached_property
    def _drawn(self) -> ShardGraph:
        return topologies.random_degree(self._names, self.degree, self.graph_seed)


@dataclass(frozen=True)
class Complete(_Numbered):
    """n shards that all learn from each other: one group, retrained at every request."""

    kind: ClassVar[str] = "complete"

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """All n shards, every one joined to every other."""
        return check_present(self._whole, present)

    @cached_property
    def _whole(self) -> ShardGraph:
        return topologies.complete(self._names)
