"""Weights of edges: infinity or epsilon, groups of their own for shards with private edges, who is charged."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph import Group, ShardGraph, complete, revisited_samples

from .strategies import graphs, quick

MIXED = ShardGraph(
    ("a", "b", "c"), frozenset({("a", "b"), ("b", "a"), ("c", "a"), ("c", "b")}), frozenset({("c", "a")}), 2.0
)


def test_an_edge_weighs_infinity_or_epsilon():
    assert MIXED.weight("c", "a") == 2.0
    assert MIXED.weight("c", "b") == MIXED.weight("a", "a") == math.inf
    assert MIXED.weight("a", "c") == 0


def test_a_shard_with_private_edges_is_a_group_of_its_own():
    assert MIXED.groups() == (Group("a", ("a", "b"), ("a", "b")), Group("c", ("c",), ("b", "c"), ("a",)))
    whole = complete(["a", "b", "c"]).all_private(1.0)
    assert [(group.members, group.neighbourhood) for group in whole.groups()] == [
        (("a",), ("a",)),
        (("b",), ("b",)),
        (("c",), ("c",)),
    ]
    assert whole.groups()[0].private == ("b", "c")


def test_who_used_a_shard_directly_is_affected_and_who_used_it_privately_is_charged():
    assert [group.name for group in MIXED.affected(["a"])] == ["a"]
    assert [group.name for group in MIXED.charged(["a"])] == ["c"]
    assert [group.name for group in MIXED.affected(["b"])] == ["a", "c"]
    assert MIXED.charged(["b"]) == ()
    assert MIXED.revisited(["c"]) == {"a", "b", "c"}, "to train c anew is to read a once more"
    assert revisited_samples(MIXED, {"a": 1, "b": 10, "c": 100}, "a") == 11


def test_json_keeps_weights_and_graphs_without_any_are_spelled_as_ever():
    assert MIXED.to_json()["edges"] == [["a", "b"], ["b", "a"], ["c", "a", 2.0], ["c", "b"]]
    assert ShardGraph.from_json(MIXED.to_json()) == MIXED
    assert MIXED.digest != ShardGraph(MIXED.shards, MIXED.edges).digest
    assert ShardGraph(("a",), epsilon=2.0) == ShardGraph(("a",)), "without private edges there is no epsilon"


def test_networkx_keeps_weights():
    pytest.importorskip("networkx")
    assert ShardGraph.from_networkx(MIXED.to_networkx()) == MIXED


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_is_no_promise_is_refused(epsilon: float):
    with pytest.raises(GraphError, match="epsilon"):
        complete(["a", "b"]).all_private(epsilon)


def test_a_private_edge_must_be_an_edge():
    with pytest.raises(GraphError, match="must be an edge of the graph"):
        ShardGraph(("a", "b"), frozenset(), frozenset({("a", "b")}), 1.0)


@quick
@given(graph=graphs(), data=st.data())
def test_any_choice_of_private_edges_leaves_a_partition_and_nobody_is_both_affected_and_charged_by_one_shard(
    graph, data
):
    private = (
        frozenset(data.draw(st.lists(st.sampled_from(sorted(graph.edges)), unique=True)))
        if graph.edges
        else frozenset()
    )
    mixed = ShardGraph(graph.shards, graph.edges, private, 1.0 if private else math.inf)
    assert sorted(shard for group in mixed.groups() for shard in group.members) == list(mixed.shards)
    for shard in mixed.shards:
        affected, charged = mixed.affected([shard]), mixed.charged([shard])
        assert not set(affected) & set(charged)
        readers = {member for group in (*affected, *charged) for member in group.members}
        assert readers >= mixed.readers(shard)
    for group in mixed.groups():
        assert all((group.name, other) in private for other in group.private)
        assert len(group.members) == 1 or not group.private
