"""The shard graph: neighbourhoods, groups, private edges, and edges as JSON has them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph import Group, ShardGraph, cliques, complete, numbered_names, revisited_samples
from shardgraph.graph.shards import parse_edges

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


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str(self) == str(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("plain", [["a", "b"], ("a", "b")], ids=["list", "tuple"])
@pytest.mark.parametrize("private", [["a", "b", 2.0], ("a", "b", 2.0)], ids=["list", "tuple"])
def test_an_edge_is_plain_or_private_and_not_both(plain, private):
    for edges in ([plain, private], [private, plain]):
        with pytest.raises(GraphError, match=r"must be plain or private, got \('a', 'b'\) as both"):
            ShardGraph.from_json({"shards": ["a", "b"], "edges": edges})
    ShardGraph.from_json({"shards": ["a", "b"], "edges": [["b", "a"], private]})


def test_many_edges_are_not_compared_with_each_other():
    edges = [[Counted(f"a{i}"), Counted(f"b{i}")] for i in range(300)]
    edges += [[Counted(f"b{i}"), Counted(f"a{i}"), 2.0] for i in range(300)]
    Counted.compared = 0
    assert len(parse_edges(edges)[1]) == 300
    assert Counted.compared < 1000


@pytest.mark.parametrize("odd", [[["a"], "b"], [["a"], "b", 2.0], [{}, "b"], "ab", 7])
def test_an_edge_of_something_else_is_named(odd):
    with pytest.raises(GraphError, match="an edge must"):
        ShardGraph.from_json({"shards": ["a", "b"], "edges": [["a", "b"], ["b", "a", 2.0], odd]})


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
