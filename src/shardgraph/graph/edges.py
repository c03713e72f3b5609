"""Edges between shards: pairs (i, j), some of them private, checked and laid out by shard."""

import math
from collections.abc import Iterable
from typing import Any

from shardgraph.errors import GraphError, some


def adjacency(shards: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """For every shard, itself and those that its edges lead to."""
    found = {shard: {shard} for shard in shards}
    for i, j in edges:
        found[i].add(j)
    return {shard: frozenset(reached) for shard, reached in found.items()}


def private_neighbours(edges: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """For every shard with private edges, those that they lead to."""
    found: dict[str, set[str]] = {}
    for i, j in edges:
        found.setdefault(i, set()).add(j)
    return {shard: frozenset(read) for shard, read in found.items()}


def weighed(edges: Iterable[Any]) -> tuple[Any, Any, float]:
    """Edges as JSON has them, [i, j] or [i, j, epsilon]: all of them, the private ones, and their one epsilon."""
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


def _named(edges: Iterable[Any]) -> list[tuple[str, ...]]:
    """Those of the edges that are made of names."""
    lists = [tuple(edge) for edge in edges if isinstance(edge, list | tuple)]
    return [edge for edge in lists if all(isinstance(end, str) for end in edge)]


def checked(edges: Iterable[tuple[str, str]], known: set[str]) -> frozenset[tuple[str, str]]:
    """The edges between two different shards, if all of them join known ones."""
    return frozenset((i, j) for i, j in (_pair(edge, known) for edge in edges) if i != j)


def _pair(edge: Any, known: set[str]) -> tuple[str, str]:
    if not isinstance(edge, list | tuple) or len(edge) != 2:
        raise GraphError(f"an edge must be a pair of shard names, got {edge!r}")
    for end in edge:
        if not isinstance(end, str) or end not in known:
            raise GraphError(f"an edge must join two shards of the graph, got {edge!r}: no shard {end!r}")
    return edge[0], edge[1]
