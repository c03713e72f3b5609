"""Topologies: plain functions that make a shard graph from names."""

from collections.abc import Iterable

from shardgraph.digest import generator
from shardgraph.errors import GraphError
from shardgraph.graph.shards import ShardGraph, check_names, check_whole

MOST_EDGES = 5_000_000
"""Beyond this a graph would take more than half a gigabyte; a clique of m shards has m (m - 1) edges."""


def isolated(names: Iterable[str]) -> ShardGraph:
    """No edges: every shard learns from itself alone.

    >>> [group.members for group in isolated(["b", "a"]).groups()]
    [('a',), ('b',)]
    """
    return ShardGraph(check_names(names))


def cliques(parts: Iterable[Iterable[str]]) -> ShardGraph:
    """Disjoint cliques: the shards of one part learn from each other and from no others.

    >>> graph = cliques([["a", "b"], ["c"]])
    >>> [group.neighbourhood for group in graph.groups()]
    [('a', 'b'), ('c',)]
    """
    kept = [check_names(part) for part in parts]
    _check_edge_count(sum(len(part) * (len(part) - 1) for part in kept))
    names = check_names(name for part in kept for name in part)
    return ShardGraph(names, frozenset((i, j) for part in kept for i in part for j in part if i != j))


def complete(names: Iterable[str]) -> ShardGraph:
    """Every shard learns from every other: one group.

    >>> len(complete(["a", "b", "c"]).groups())
    1
    """
    return cliques([names])


def safe_shard(names: Iterable[str], safe: Iterable[str]) -> ShardGraph:
    """Every shard learns from the safe shards, whose samples nobody asks to forget; there are no other edges.

    >>> graph = safe_shard(["ann", "bob", "web"], ["web"])
    >>> sorted(graph.neighbourhood("ann")), sorted(graph.neighbourhood("web"))
    (['ann', 'web'], ['web'])
    """
    kept, read = check_names(names), check_names(safe)
    _check_edge_count(len(kept) * len(read))
    return ShardGraph(kept, frozenset((i, j) for i in kept for j in read))


def random_degree(names: Iterable[str], degree: int, seed: int) -> ShardGraph:
    """Every shard learns from `degree` others, drawn uniformly with a generator of its own.

    >>> graph = random_degree(["a", "b", "c", "d"], degree=2, seed=0)
    >>> [len(graph.neighbourhood(shard)) for shard in graph.shards]
    [3, 3, 3, 3]
    """
    kept = sorted(check_names(names))
    check_whole("degree", degree, 0, max(len(kept) - 1, 0))
    _check_edge_count(len(kept) * degree)
    return ShardGraph(tuple(kept), frozenset((i, j) for i in kept for j in _draw_others(kept, i, degree, seed)))


def bilevel(coarse: int, fine: int) -> ShardGraph:
    """The bilevel graph of section 5: n_c coarse shards, each cut into n_f cliques of classes.

    In the paper the nodes are single classes of a coarse shard, and a clique joins those assigned to the same (c, f).
    Here the whole clique is one shard: the refined graph of a single shard is already a clique over its classes, so
    nothing is lost, and the graph over n_c * n_f such shards has no edges.

    >>> bilevel(2, 2).shards
    ('c0-f0', 'c0-f1', 'c1-f0', 'c1-f1')
    >>> refined = bilevel(1, 2).refined({"c0-f0": ["cat", "dog"], "c0-f1": ["fox"]})
    >>> [(a.label, b.label) for a, b in sorted(refined.edges)]
    [('cat', 'dog'), ('dog', 'cat')]
    """
    return isolated(bilevel_names(coarse, fine))


def uniform(n: int) -> ShardGraph:
    """Uniform sharding, as in SISA: the bilevel graph with one clique per coarse shard.

    >>> uniform(3) == bilevel(3, 1)
    True
    """
    return bilevel(n, 1)


def bilevel_names(coarse: int, fine: int) -> tuple[str, ...]:
    """The names of the n_c * n_f bilevel shards, padded so that sorting them is natural.

    >>> bilevel_names(11, 2)[:3]
    ('c00-f0', 'c00-f1', 'c01-f0')
    """
    cs, fs = _numbers("coarse", coarse), _numbers("fine", fine)
    return tuple(f"c{c}-f{f}" for c in cs for f in fs)


def numbered_names(n: int) -> tuple[str, ...]:
    """The names of n numbered shards.

    >>> numbered_names(3)
    ('s0', 's1', 's2')
    """
    return tuple(f"s{i}" for i in _numbers("shards", n))


def _numbers(what: str, n: int) -> list[str]:
    width = len(str(check_whole(what, n, 1) - 1))
    return [f"{i:0{width}d}" for i in range(n)]


def _draw_others(kept: list[str], shard: str, degree: int, seed: int) -> list[str]:
    others = [other for other in kept if other != shard]
    picked = generator(seed, "random-degree", shard).permutation(len(others))[:degree]
    return [others[k] for k in picked.tolist()]


def _check_edge_count(edges: int) -> None:
    if edges > MOST_EDGES:
        raise GraphError(
            f"a graph must have at most {MOST_EDGES:,} edges, this one would have {edges:,}; "
            "use fewer or smaller cliques"
        )
