"""Topologies in which a sample's source names its shard."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from shardgraph.errors import GraphError
from shardgraph.graph import topologies
from shardgraph.graph.placement import Rule, Topology, check_present, check_source
from shardgraph.graph.shards import ShardGraph, check_names


@dataclass(frozen=True)
class BySource(Topology):
    """One shard per source; every shard may learn from the `safe` sources and from no other.

    >>> graph = BySource(safe=("web",)).graph(["ann", "bob", "web"])
    >>> sorted(graph.neighbourhood("ann"))
    ['ann', 'web']
    """

    kind: ClassVar[str] = "by-source"
    safe: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "safe", tuple(sorted(check_names(self.safe, "safe source"))))

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """The shards present, with edges to those of them that are safe."""
        names = set(present)
        return topologies.safe_shard(names, names.intersection(self.safe))

    def _rule(self, seed: int, classes: tuple[str, ...]) -> Rule:
        return lambda sample_id, source, label: check_source(source, sample_id)


@dataclass(frozen=True)
class OwnGraph(Topology):
    """A graph of your own: a sample's source must be a node, and that is its shard."""

    kind: ClassVar[str] = "graph"
    own: ShardGraph

    def __post_init__(self) -> None:
        if isinstance(self.own, Mapping):  # as JSON brings it
            object.__setattr__(self, "own", ShardGraph.from_json(self.own))
        if not isinstance(self.own, ShardGraph):
            raise GraphError(f"a graph of your own must be a ShardGraph, got {self.own!r}")

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """Your graph, all of it, if it holds the shards present."""
        return check_present(self.own, present)

    def _rule(self, seed: int, classes: tuple[str, ...]) -> Rule:
        def rule(sample_id: str, source: str, label: str) -> str:
            if source not in self.own:
                raise GraphError(f"a sample's source must be a shard of your graph, got {source!r}", [sample_id])
            return source

        return rule
