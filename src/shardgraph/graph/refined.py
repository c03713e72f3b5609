"""The refined shard graph: one node for each label of each shard (section 4 of the paper)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from shardgraph.errors import GraphError


class Node(NamedTuple):
    """S^(k): the samples of one label in one shard; a pair, so that no separator can confuse two."""

    shard: str
    label: str


@dataclass(frozen=True)
class RefinedGraph:
    """V' and E' of the paper: node (S, h) may read (S', k) whenever S may read S'.

    Made by `ShardGraph.refined`. Only the labels of each shard, L(S), and the shards' neighbourhoods are
    stored; edges are computed on demand, as there are many.
    """

    labels: Mapping[str, frozenset[str]]
    outbound: Mapping[str, frozenset[str]]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """V' = {S^(k) : S in V, k in L(S)}, sorted."""
        return tuple(sorted(Node(shard, label) for shard, labels in self.labels.items() for label in labels))

    @property
    def edges(self) -> frozenset[tuple[Node, Node]]:
        """E' = {(S^(h), S'^(k)) : (S, S') in E, h in L(S), k in L(S')}, less the implied self edges."""
        return frozenset((a, b) for a in self.nodes for b in self.neighbourhood(a) if a != b)

    def neighbourhood(self, node: tuple[str, str]) -> frozenset[Node]:
        """The nodes that this one's binary classifier learns from, itself included."""
        shard, label = node
        if label not in self.labels.get(shard, ()):
            raise GraphError(f"a node must be a label that occurs in a shard, got {tuple(node)!r}")
        return frozenset(Node(other, k) for other in self.outbound[shard] for k in self.labels[other])
