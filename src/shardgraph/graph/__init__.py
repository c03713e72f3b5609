"""Shard graphs: which shard learns from which, which shard a sample belongs to, what is retrained, and what it costs.

The ideas of the paper in pure Python and NumPy: no torch, no disk, no contents of samples.

    shards        ShardGraph and Group: neighbourhoods, readers, groups, which groups a change affects
    refined       RefinedGraph: the graph over (shard, label)
    topologies    plain functions that make graphs from names
    placement     Topology: from a sample's id, source and label to its shard; keyed hashes, the balanced split;
                  topologies of coarse shards and fine cliques
    sourced       topologies in which a sample's source names its shard
    numbered      topologies over numbered shards
    cost          |M_x|: exact for any graph, and in closed form
"""

from shardgraph.graph.cost import (
    cliques_cost,
    equal_cliques_cost,
    expected_cost,
    random_degree_cost,
    revisited_samples,
)
from shardgraph.graph.numbered import Complete, RandomDegree
from shardgraph.graph.placement import Bilevel, BilevelAcross, BySourceBilevel, Topology, balanced
from shardgraph.graph.refined import Node, RefinedGraph
from shardgraph.graph.shards import Group, ShardGraph
from shardgraph.graph.sourced import BySource, OwnGraph
from shardgraph.graph.topologies import (
    bilevel,
    bilevel_names,
    cliques,
    complete,
    isolated,
    numbered_names,
    random_degree,
    safe_shard,
    uniform,
)

__all__ = [
    "Bilevel",
    "BilevelAcross",
    "BySource",
    "BySourceBilevel",
    "Complete",
    "Group",
    "Node",
    "OwnGraph",
    "RandomDegree",
    "RefinedGraph",
    "ShardGraph",
    "Topology",
    "balanced",
    "bilevel",
    "bilevel_names",
    "cliques",
    "cliques_cost",
    "complete",
    "equal_cliques_cost",
    "expected_cost",
    "isolated",
    "numbered_names",
    "random_degree",
    "random_degree_cost",
    "revisited_samples",
    "safe_shard",
    "uniform",
]
