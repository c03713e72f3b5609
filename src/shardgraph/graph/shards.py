"""The shard graph: which shard's adapter may learn from which, and which groups a change of a shard affects.

Contents:

    ShardGraph, Group            the graph, and the shards that are trained together
    check_names, check_whole     checks of names and numbers, for this and other modules of the package
    parse_edges, check_edges     edges as JSON has them, [i, j] or [i, j, epsilon]: parsed and checked
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shardgraph.digest import canonical_json, digest
from shardgraph.errors import GraphError, some
from shardgraph.graph.refined import RefinedGraph


@dataclass(frozen=True)
class Group:
    """The shards with one common neighbourhood, trained together; in a graph of cliques, a clique.

    A shard with private edges is a group of its own: `private` are the shards that it learns from privately,
    `neighbourhood` those that it learns from directly, itself included.
    """

    name: str
    members: tuple[str, ...]
    neighbourhood: tuple[str, ...]
    private: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShardGraph:
    """A directed graph over shards; edge (i, j) lets the adapter of i learn from j.

    Every shard learns from itself: self edges are implied, and dropped if given. An edge has a weight: infinity for a
    plain edge (i uses the samples of j as its own), or `epsilon` for one of `private` (i learns from j with
    differential privacy). All private edges have one epsilon: the privacy loss of a sample to the whole model.

    >>> graph = ShardGraph(("a", "b"), frozenset({("a", "b")}), private=frozenset({("a", "b")}), epsilon=2.0)
    >>> graph.weight("a", "b"), graph.weight("a", "a"), graph.weight("b", "a")
    (2.0, inf, 0.0)
    """

    shards: tuple[str, ...]
    edges: frozenset[tuple[str, str]] = field(default=frozenset())
    private: frozenset[tuple[str, str]] = field(default=frozenset())
    epsilon: float = math.inf

    def __post_init__(self) -> None:
        shards = tuple(sorted(check_names(self.shards)))
        object.__setattr__(self, "shards", shards)
        object.__setattr__(self, "edges", check_edges(self.edges, set(shards)))
        object.__setattr__(self, "private", check_edges(self.private, set(shards)))
        if odd := sorted(self.private - self.edges):
            raise GraphError(f"a private edge must be an edge of the graph, got {odd[0]!r}")
        if self.private and not (0 < self.epsilon < math.inf):
            raise GraphError(f"epsilon, the weight of private edges, must be a number > 0, got {self.epsilon!r}")
        if not self.private:
            object.__setattr__(self, "epsilon", math.inf)

    def __contains__(self, shard: object) -> bool:
        return shard in self._outbound

    def neighbourhood(self, shard: str) -> frozenset[str]:
        """N(shard): the shards that its adapter learns from, itself included."""
        return self._outbound[self._known([shard])[0]]

    def weight(self, i: str, j: str) -> float:
        """How much i may learn from a sample of j: infinity, epsilon, or 0 where there is no edge."""
        self._known([j])
        if j not in self.neighbourhood(i):
            return 0.0
        return self.epsilon if (i, j) in self.private else math.inf

    def all_private(self, epsilon: float) -> "ShardGraph":
        """The same graph with every edge private."""
        return replace(self, private=self.edges, epsilon=epsilon)

    def readers(self, shard: str) -> frozenset[str]:
        """The shards whose adapters learn from this one, itself included."""
        return self._inbound[self._known([shard])[0]]

    def groups(self) -> tuple[Group, ...]:
        """All groups, sorted by name; every shard is in exactly one."""
        return self._groups

    def affected(self, shards: Iterable[str]) -> tuple[Group, ...]:
        """The groups that learn from any of these shards directly, sorted by name: they must be retrained."""
        known = self._known(shards)
        return self._groups_of((i, j) for j in known for i in self._inbound[j] if (i, j) not in self.private)

    def charged(self, shards: Iterable[str]) -> tuple[Group, ...]:
        """The groups that learn from any of these shards privately, sorted by name."""
        known = self._known(shards)
        return self._groups_of((i, j) for j in known for i in self._inbound[j] if (i, j) in self.private)

    def revisited(self, shards: Iterable[str]) -> frozenset[str]:
        """The shards that are read again when these change: M_x of the paper, at the level of shards."""
        return frozenset().union(*(group.neighbourhood + group.private for group in self.affected(shards)))

    def refined(self, labels: Mapping[str, Collection[str]]) -> RefinedGraph:
        """The graph over (shard, label) given the labels that occur in each shard, L(S) in the paper."""
        self._known(labels)
        sets = {shard: frozenset(check_names(labels.get(shard, ()), "label")) for shard in self.shards}
        return RefinedGraph(labels=sets, outbound=self._outbound)

    @property
    def digest(self) -> str:
        """A digest of shards and edges; equal graphs have equal digests on any machine."""
        return digest("shard-graph", canonical_json(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """The graph as {"shards": [...], "edges": [[i, j] or [i, j, epsilon], ...]}, both sorted."""
        edges = [[*edge, self.epsilon] if edge in self.private else [*edge] for edge in sorted(self.edges)]
        return {"shards": list(self.shards), "edges": edges}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ShardGraph":
        """The graph of a value in the form that `to_json` returns."""
        if not isinstance(value, Mapping) or set(value) != {"shards", "edges"}:
            got = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise GraphError(f"a graph must have the keys 'shards' and 'edges', got {got}")
        for key in ("shards", "edges"):
            if not isinstance(value[key], list | tuple):
                raise GraphError(f"{key!r} of a graph must be a list, got {value[key]!r}")
        return cls(value["shards"], *parse_edges(value["edges"]))

    @classmethod
    def from_networkx(cls, graph: Any) -> "ShardGraph":
        """The shard graph of a networkx graph; undirected edges count both ways.

        An edge with the attribute `epsilon` is private; other attributes are dropped.
        """
        edges = [(i, j) if epsilon is None else (i, j, epsilon) for i, j, epsilon in graph.edges(data="epsilon")]
        back = [] if graph.is_directed() else [(j, i, *rest) for i, j, *rest in edges]
        return cls(tuple(graph.nodes()), *parse_edges(edges + back))

    def to_networkx(self) -> Any:
        """A networkx.DiGraph with the same nodes and edges (self edges stay implied; private ones have `epsilon`)."""
        import networkx  # optional: pip install 'shardgraph[graph]'

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.shards)
        graph.add_edges_from(
            (i, j, {"epsilon": self.epsilon} if (i, j) in self.private else {}) for i, j in sorted(self.edges)
        )
        return graph

    @cached_property
    def _outbound(self) -> dict[str, frozenset[str]]:
        return adjacency(self.shards, self.edges)

    @cached_property
    def _inbound(self) -> dict[str, frozenset[str]]:
        return adjacency(self.shards, ((j, i) for i, j in self.edges))

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        members: dict[frozenset[str], list[str]] = {}
        private = private_neighbours(self.private)
        for shard in self.shards:  # sorted, so the first member names the group
            if shard not in private:
                members.setdefault(self._outbound[shard], []).append(shard)
        plain = [Group(own[0], tuple(own), tuple(sorted(read))) for read, own in members.items()]
        alone = [
            Group(i, (i,), tuple(sorted(self._outbound[i] - read)), tuple(sorted(read))) for i, read in private.items()
        ]
        return tuple(sorted(plain + alone, key=lambda group: group.name))

    @cached_property
    def _group_of(self) -> dict[str, Group]:
        return {shard: group for group in self._groups for shard in group.members}

    def _groups_of(self, edges: Iterable[tuple[str, str]]) -> tuple[Group, ...]:
        found = {self._group_of[reader].name: self._group_of[reader] for reader, _ in edges}
        return tuple(found[name] for name in sorted(found))

    def _known(self, shards: Iterable[str]) -> list[str]:
        if isinstance(shards, str):
            raise GraphError(f"shards must be several names, got the one string {shards!r}")
        names = list(shards)
        unknown = [shard for shard in names if shard not in self]
        if unknown:
            raise GraphError(f"shards must be in the graph, got {some(unknown)}")
        return names


def check_names(values: Iterable[str], what: str = "shard") -> tuple[str, ...]:
    """The names as a tuple, if they are distinct strings that are not empty and can be written as UTF-8."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise GraphError(f"{what} names must be a list of strings, got {values!r}")
    given = tuple(values)
    odd = [name for name in given if not isinstance(name, str)]
    if odd:
        raise GraphError(f"{what} names must be strings, got {odd[0]!r} ({type(odd[0]).__name__})")
    if "" in given:
        raise GraphError(f"{what} names must not be empty, got ''")
    if len(set(given)) < len(given):
        twice = sorted(name for name, times in Counter(given).items() if times > 1)
        raise GraphError(f"{what} names must be unique, got {some(twice)} more than once")
    _check_utf8(given, what)
    return given


def check_whole(what: str, value: int, least: int, most: int | None = None) -> int:
    """The value, if it is a whole number from `least` to `most`."""
    wanted = f"at least {least}" if most is None else f"from {least} to {most}"
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):
        raise GraphError(f"{what} must be a whole number {wanted}, got {value!r}")
    return value


def parse_edges(edges: Iterable[Any]) -> tuple[Any, Any, float]:
    """All edges, the private ones and their epsilon, from edges as JSON has them: [i, j] or [i, j, epsilon]."""
    plain, private, weights = [], [], set()
    for edge in edges:
        if not isinstance(edge, list | tuple) or len(edge) != 3:
            plain.append(edge)
            continue
        *pair, weight = edge
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise GraphError(f"the weight of an edge must be its epsilon, a number, got {edge!r}")
        private.append(tuple(pair))
        weights.add(float(weight))
    if len(weights) > 1:
        found = some(map(str, sorted(weights)))
        raise GraphError(f"private edges must have one epsilon, a sample's loss to the whole model; got {found}")
    known = set(_named(plain))
    if both := [pair for pair in _named(private) if pair in known]:
        raise GraphError(f"an edge must be plain or private, got {both[0]!r} as both")
    return plain + private, private, weights.pop() if weights else math.inf


def check_edges(edges: Iterable[tuple[str, str]], known: set[str]) -> frozenset[tuple[str, str]]:
    """The edges without self edges, if all of them join known shards."""
    return frozenset((i, j) for i, j in (_pair(edge, known) for edge in edges) if i != j)


def adjacency(shards: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """For every shard, itself and the shards that its edges lead to."""
    found = {shard: {shard} for shard in shards}
    for i, j in edges:
        found[i].add(j)
    return {shard: frozenset(reached) for shard, reached in found.items()}


def private_neighbours(edges: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """For every shard with private edges, the shards that they lead to."""
    found: dict[str, set[str]] = {}
    for i, j in edges:
        found.setdefault(i, set()).add(j)
    return {shard: frozenset(read) for shard, read in found.items()}


def _check_utf8(given: tuple[str, ...], what: str) -> None:
    try:
        "".join(given).encode()
    except UnicodeEncodeError:
        bad = [name for name in given if any("\ud800" <= letter <= "\udfff" for letter in name)]
        raise GraphError(f"{what} names must be valid text, got {some(bad)}") from None


def _named(edges: Iterable[Any]) -> list[tuple[str, ...]]:
    """The edges that are lists of strings."""
    lists = [tuple(edge) for edge in edges if isinstance(edge, list | tuple)]
    return [edge for edge in lists if all(isinstance(end, str) for end in edge)]


def _pair(edge: Any, known: set[str]) -> tuple[str, str]:
    if not isinstance(edge, list | tuple) or len(edge) != 2:
        raise GraphError(f"an edge must be a pair of shard names, got {edge!r}")
    for end in edge:
        if not isinstance(end, str) or end not in known:
            raise GraphError(f"an edge must join two shards of the graph, got {edge!r}: no shard {end!r}")
    return edge[0], edge[1]
