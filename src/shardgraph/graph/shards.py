"""The shard graph: which shard's adapter may learn from which, and who is touched when a shard changes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shardgraph.digest import canonical_json, digest
from shardgraph.errors import GraphError, some
from shardgraph.graph import checks
from shardgraph.graph.refined import RefinedGraph


@dataclass(frozen=True)
class Group:
    """The shards with one common neighbourhood, trained together; in a graph of cliques, a clique."""

    name: str
    members: tuple[str, ...]
    neighbourhood: tuple[str, ...]


@dataclass(frozen=True)
class ShardGraph:
    """A directed graph over shards; edge (i, j) lets the adapter of i learn from j.

    Every shard learns from itself: self edges are implied, and dropped when given.
    """

    shards: tuple[str, ...]
    edges: frozenset[tuple[str, str]] = field(default=frozenset())

    def __post_init__(self) -> None:
        shards = tuple(sorted(checks.names(self.shards)))
        object.__setattr__(self, "shards", shards)
        object.__setattr__(self, "edges", _checked_edges(self.edges, set(shards)))

    def __contains__(self, shard: object) -> bool:
        return shard in self._outbound

    def neighbourhood(self, shard: str) -> frozenset[str]:
        """N(shard): the shards that its adapter learns from, itself included."""
        return self._outbound[self._known([shard])[0]]

    def readers(self, shard: str) -> frozenset[str]:
        """The shards whose adapters learn from this one, itself included."""
        return self._inbound[self._known([shard])[0]]

    def groups(self) -> tuple[Group, ...]:
        """All groups, sorted by name; together they hold every shard once."""
        return self._groups

    def affected(self, shards: Iterable[str]) -> tuple[Group, ...]:
        """The groups that learned from any of these shards, sorted by name."""
        readers = {reader for shard in self._known(shards) for reader in self._inbound[shard]}
        found = {self._group_of[reader].name: self._group_of[reader] for reader in readers}
        return tuple(found[name] for name in sorted(found))

    def revisited(self, shards: Iterable[str]) -> frozenset[str]:
        """The shards read again when these change: M_x of the paper, at the level of shards."""
        return frozenset().union(*(group.neighbourhood for group in self.affected(shards)))

    def refined(self, labels: Mapping[str, Collection[str]]) -> RefinedGraph:
        """The graph over (shard, label) given the labels that occur in each shard, L(S) in the paper."""
        self._known(labels)
        sets = {shard: frozenset(checks.names(labels.get(shard, ()), "label")) for shard in self.shards}
        return RefinedGraph(labels=sets, outbound=self._outbound)

    @property
    def digest(self) -> str:
        """A digest of shards and edges: equal for equal graphs, on any machine."""
        return digest("shard-graph", canonical_json(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """The graph as {"shards": [...], "edges": [[i, j], ...]}, both sorted."""
        return {"shards": list(self.shards), "edges": [list(edge) for edge in sorted(self.edges)]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ShardGraph":
        """The graph that `to_json` wrote, or that a person wrote in its form."""
        if not isinstance(value, Mapping) or set(value) != {"shards", "edges"}:
            got = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise GraphError(f"a graph must have the keys 'shards' and 'edges', got {got}")
        for key in ("shards", "edges"):
            if not isinstance(value[key], list | tuple):
                raise GraphError(f"{key!r} of a graph must be a list, got {value[key]!r}")
        return cls(value["shards"], value["edges"])

    @classmethod
    def from_networkx(cls, graph: Any) -> "ShardGraph":
        """The shard graph of a networkx graph; undirected edges count both ways, attributes are dropped."""
        edges = list(graph.edges())
        back = [] if graph.is_directed() else [(j, i) for i, j in edges]
        return cls(tuple(graph.nodes()), frozenset(edges + back))

    def to_networkx(self) -> Any:
        """A networkx.DiGraph with the same nodes and edges (self edges stay implied)."""
        import networkx  # optional: pip install 'shardgraph[graph]'

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.shards)
        graph.add_edges_from(sorted(self.edges))
        return graph

    @cached_property
    def _outbound(self) -> dict[str, frozenset[str]]:
        return _adjacency(self.shards, self.edges)

    @cached_property
    def _inbound(self) -> dict[str, frozenset[str]]:
        return _adjacency(self.shards, ((j, i) for i, j in self.edges))

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        members: dict[frozenset[str], list[str]] = {}
        for shard in self.shards:  # sorted, so the first member names the group and groups come sorted
            members.setdefault(self._outbound[shard], []).append(shard)
        return tuple(Group(own[0], tuple(own), tuple(sorted(read))) for read, own in members.items())

    @cached_property
    def _group_of(self) -> dict[str, Group]:
        return {shard: group for group in self._groups for shard in group.members}

    def _known(self, shards: Iterable[str]) -> list[str]:
        if isinstance(shards, str):
            raise GraphError(f"shards must be several names, got the one string {shards!r}")
        asked = list(shards)
        unknown = [shard for shard in asked if shard not in self]
        if unknown:
            raise GraphError(f"shards must be in the graph, got {some(unknown)}")
        return asked


def _adjacency(shards: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found = {shard: {shard} for shard in shards}
    for i, j in edges:
        found[i].add(j)
    return {shard: frozenset(reached) for shard, reached in found.items()}


def _checked_edges(edges: Iterable[tuple[str, str]], known: set[str]) -> frozenset[tuple[str, str]]:
    return frozenset((i, j) for i, j in (_pair(edge, known) for edge in edges) if i != j)


def _pair(edge: Any, known: set[str]) -> tuple[str, str]:
    if not isinstance(edge, list | tuple) or len(edge) != 2:
        raise GraphError(f"an edge must be a pair of shard names, got {edge!r}")
    for end in edge:
        if not isinstance(end, str) or end not in known:
            raise GraphError(f"an edge must join two shards of the graph, got {edge!r}: no shard {end!r}")
    return edge[0], edge[1]
