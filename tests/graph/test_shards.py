import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph import Group, ShardGraph, cliques, numbered_names

from .strategies import graphs, quick

DIAMOND = ShardGraph(("d", "a", "b", "c"), frozenset({("a", "b"), ("b", "a"), ("c", "b"), ("d", "d")}))


def reads(graph: ShardGraph, i: str, j: str) -> bool:
    return i == j or (i, j) in graph.edges


def test_shards_are_sorted_and_self_edges_implied():
    assert DIAMOND.shards == ("a", "b", "c", "d")
    assert ("d", "d") not in DIAMOND.edges
    assert DIAMOND.neighbourhood("d") == {"d"}


def test_neighbourhood_is_outbound_and_readers_inbound():
    assert DIAMOND.neighbourhood("c") == {"b", "c"}
    assert DIAMOND.readers("c") == {"c"}
    assert DIAMOND.readers("b") == {"a", "b", "c"}


def test_groups_share_a_neighbourhood_and_take_their_smallest_name():
    assert DIAMOND.groups() == (
        Group("a", ("a", "b"), ("a", "b")),
        Group("c", ("c",), ("b", "c")),
        Group("d", ("d",), ("d",)),
    )


def test_empty_graph_has_no_groups():
    assert ShardGraph(()).groups() == ()


@quick
@given(graphs())
def test_groups_partition_the_shards(graph):
    groups = graph.groups()
    assert sorted(shard for group in groups for shard in group.members) == list(graph.shards)
    assert [group.name for group in groups] == sorted(min(group.members) for group in groups)
    assert len({group.neighbourhood for group in groups}) == len(groups)
    for group in groups:
        assert set(group.members) <= set(group.neighbourhood)
        assert all(graph.neighbourhood(shard) == set(group.neighbourhood) for shard in group.members)


@quick
@given(graphs(), st.data())
def test_affected_and_revisited_equal_brute_force(graph, data):
    asked = data.draw(st.sets(st.sampled_from(graph.shards)))
    hit = {i for i in graph.shards if any(reads(graph, i, j) for j in asked)}
    expected = [group for group in graph.groups() if hit & set(group.members)]
    assert list(graph.affected(asked)) == expected
    assert graph.revisited(asked) == {j for i in hit for j in graph.shards if reads(graph, i, j)}


@quick
@given(graphs())
def test_readers_mirror_neighbourhoods(graph):
    for i in graph.shards:
        assert graph.readers(i) == {j for j in graph.shards if i in graph.neighbourhood(j)}


@quick
@given(graphs())
def test_json_round_trip_keeps_graph_and_digest(graph):
    again = ShardGraph.from_json(json.loads(json.dumps(graph.to_json())))
    assert again == graph
    assert again.digest == graph.digest


@quick
@given(graphs())
def test_networkx_round_trip_keeps_the_graph(graph):
    pytest.importorskip("networkx")
    assert ShardGraph.from_networkx(graph.to_networkx()) == graph


def test_undirected_networkx_edges_count_both_ways():
    networkx = pytest.importorskip("networkx")
    assert ShardGraph.from_networkx(networkx.Graph([("a", "b")])).edges == {("a", "b"), ("b", "a")}


def test_networkx_nodes_that_are_not_names_are_refused():
    networkx = pytest.importorskip("networkx")
    with pytest.raises(GraphError, match="7"):
        ShardGraph.from_networkx(networkx.DiGraph([(7, "b")]))


def test_digest_tells_graphs_apart_and_is_fixed_across_machines():
    # SHA-256 of two length-prefixed parts, "shard-graph" and the canonical JSON, made with hashlib alone.
    known = "b8eabc455c20649425ac42274e068629d4d03ce22f7a819c40cdb08bdd8b6311"
    assert ShardGraph(("a", "b"), frozenset({("a", "b")})).digest == known
    assert ShardGraph(("a", "b"), frozenset({("b", "a")})).digest != known


def test_four_thousand_shards_in_cliques_of_sixty_four():
    names = numbered_names(4096)
    graph = cliques(names[i : i + 64] for i in range(0, 4096, 64))
    assert len(graph.groups()) == 64
    assert graph.affected(["s0100"])[0].members == names[64:128]
    assert all(len(graph.affected([name])) == 1 for name in names)


@pytest.mark.parametrize(
    ("shards", "edges", "named"),
    [
        (("a", "a"), (), "'a'"),
        (("a", ""), (), "''"),
        (("a", 3), (), "3"),
        ("abc", (), "'abc'"),
        (("a\ud800",), (), "ud800"),
        (("a",), {("a", "zed")}, "'zed'"),
        (("a",), {("zed", "a")}, "'zed'"),
        (("a",), {("a", "a", "a")}, "pair"),
        (("a", "b"), ["ab"], "'ab'"),
        (("a",), [["a", ["b"]]], "b"),
    ],
)
def test_graphs_that_make_no_sense_are_refused(shards, edges, named):
    with pytest.raises(GraphError, match=named):
        ShardGraph(shards, edges)


@pytest.mark.parametrize(
    "value",
    [[], {}, {"shards": ["a"]}, {"shards": "ab", "edges": []}, {"shards": [], "edges": [], "more": 1}],
)
def test_json_of_another_form_is_refused(value):
    with pytest.raises(GraphError, match="must"):
        ShardGraph.from_json(value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda g: g.neighbourhood("zed"),
        lambda g: g.readers("zed"),
        lambda g: g.affected(["a", "zed"]),
        lambda g: g.revisited(["zed"]),
        lambda g: g.affected("zed"),
        lambda g: g.refined({"zed": ["cat"]}),
    ],
)
def test_questions_about_unknown_shards_name_them(ask):
    with pytest.raises(GraphError, match="'zed'"):
        ask(DIAMOND)
