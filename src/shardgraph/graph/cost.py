"""What forgetting costs: |M_x|, the samples read again to retrain the adapters that learned from x.

Sizes are numbers of samples per shard before x leaves; x itself is counted, as in the paper's d |S|.
"""

import math
from collections.abc import Mapping, Sequence

from shardgraph.errors import GraphError, some
from shardgraph.graph.shards import ShardGraph, check_whole


def revisited_samples(graph: ShardGraph, sizes: Mapping[str, int], shard: str) -> int:
    """|M_x| for a sample x of this shard; shards without a size are empty."""
    return sum(sizes.get(other, 0) for other in graph.revisited([shard]))


def expected_cost(graph: ShardGraph, sizes: Mapping[str, int], rates: Mapping[str, float] | None = None) -> float:
    """The expected |M_x| over a uniformly random sample, exact for any graph.

    With `rates`, requests fall on shards in proportion to these numbers instead of the shards' sizes.
    """
    _check_weights(graph, sizes, "size")
    weights: Mapping[str, float] = sizes if rates is None else rates
    if rates is not None:
        _check_weights(graph, rates, "rate")
    requested = [shard for shard in graph.shards if weights.get(shard, 0)]
    if not requested:
        raise GraphError("at least one shard must have a sample (or a rate) above zero, got none")
    costs = [weights[shard] * revisited_samples(graph, sizes, shard) for shard in requested]
    return _total(costs) / _total([weights[shard] for shard in requested])


def equal_cliques_cost(clique: int, size: float) -> float:
    """E|M_x| = d |S| for disjoint cliques of d shards (the shard itself counted) with |S| samples each."""
    return check_whole("clique", clique, 1) * size


def cliques_cost(clique_sizes: Sequence[int]) -> float:
    """E|M_x| = sum of |C|^2 / N for disjoint cliques of |C| samples, N in all."""
    total = sum(check_whole("clique size", size, 0) for size in clique_sizes)
    if not total:
        raise GraphError("at least one clique must hold samples, got none")
    return sum(size * size for size in clique_sizes) / total


def random_degree_cost(shards: int, degree: int, size: float) -> float:
    """E|M_x| when each of n shards of |S| samples learns from d others, drawn uniformly: Theta(d^2 |S|).

    E|M_x| / |S| = 1 + (n-1) [1 - (1-p)^2 (1-r)^(n-2)], p = d/(n-1), r = d(d-1)/((n-1)(n-2)).
    Another shard S' is spared when the shard of x does not read S' (1-p), S' does not read the shard of x
    (1-p), and none of the n-2 others reads both (1-r each). This is the theorem's value, not its bound.
    """
    n, d = check_whole("shards", shards, 1), check_whole("degree", degree, 0, shards - 1)
    if n == 1:
        return size
    p = d / (n - 1)
    r = d * (d - 1) / ((n - 1) * (n - 2)) if n > 2 else 0.0
    return size * (1 + (n - 1) * (1 - (1 - p) ** 2 * (1 - r) ** (n - 2)))


def _check_weights(graph: ShardGraph, weights: Mapping[str, float], what: str) -> None:
    unknown = sorted(shard for shard in weights if shard not in graph)
    if unknown:
        raise GraphError(f"every {what} must belong to a shard of the graph, got {some(unknown)}")
    for shard, value in weights.items():
        if not (math.isfinite(value) and value >= 0):
            raise GraphError(f"the {what} of a shard must be a number from 0, got {value!r} for {shard!r}")


def _total(values: Sequence[float]) -> float:
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)
