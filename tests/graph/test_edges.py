"""Edges as JSON has them: plain or private, never both, and looked up rather than searched for."""

import pytest

from shardgraph.errors import GraphError
from shardgraph.graph import ShardGraph
from shardgraph.graph.shards import weighed


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
    assert len(weighed(edges)[1]) == 300
    assert Counted.compared < 1000


@pytest.mark.parametrize("odd", [[["a"], "b"], [["a"], "b", 2.0], [{}, "b"], "ab", 7])
def test_an_edge_of_something_else_is_named(odd):
    with pytest.raises(GraphError, match="an edge must"):
        ShardGraph.from_json({"shards": ["a", "b"], "edges": [["a", "b"], ["b", "a", 2.0], odd]})
