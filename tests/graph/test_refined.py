import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph import Node, ShardGraph, isolated

from .strategies import NAMES, graphs, quick


@quick
@given(graphs(most=5), st.data())
def test_refined_graph_is_the_papers_set_definition(graph, data):
    occurs = {s: data.draw(st.sets(NAMES, max_size=3)) for s in graph.shards}
    refined = graph.refined(occurs)
    nodes = {(s, k) for s in graph.shards for k in occurs[s]}
    connected = graph.edges | {(s, s) for s in graph.shards}
    edges = {((s, h), (t, k)) for s, t in connected for h in occurs[s] for k in occurs[t]}
    assert refined.nodes == tuple(sorted(nodes))
    assert refined.edges == {(a, b) for a, b in edges if a != b}
    for node in refined.nodes:
        assert refined.neighbourhood(node) == {b for a, b in edges if a == node} | {node}


def test_single_shard_refines_to_a_clique_over_its_classes():
    refined = isolated(["c0-f0"]).refined({"c0-f0": ["cat", "dog", "eel"]})
    assert len(refined.edges) == 3 * 2


def test_names_with_separators_are_not_confused():
    refined = isolated(["a", "a/b"]).refined({"a": ["b/c"], "a/b": ["c"]})
    assert refined.nodes == (Node("a", "b/c"), Node("a/b", "c"))
    assert refined.edges == frozenset()


def test_shard_without_labels_has_no_node():
    graph = ShardGraph(("a", "b"), frozenset({("a", "b")}))
    assert graph.refined({"a": ["cat"]}).nodes == (("a", "cat"),)


def test_nodes_that_are_not_there_are_refused():
    refined = isolated(["a"]).refined({"a": ["cat"]})
    for node in (("a", "dog"), ("b", "cat")):
        with pytest.raises(GraphError, match=node[1]):
            refined.neighbourhood(node)


def test_one_string_is_no_collection_of_labels():
    with pytest.raises(GraphError, match="'cat'"):
        isolated(["a"]).refined({"a": "cat"})
