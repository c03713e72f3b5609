import doctest
import importlib
import pkgutil

import pytest

import shardgraph.graph as room
from shardgraph.errors import GraphError
from shardgraph.graph import (
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

MODULES = [f"shardgraph.graph.{found.name}" for found in pkgutil.iter_modules(room.__path__)]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_topologies_carry_examples():
    assert doctest.testmod(importlib.import_module("shardgraph.graph.topologies")).attempted >= 8


def test_names_sort_naturally():
    for names in (bilevel_names(12, 11), numbered_names(101)):
        assert list(names) == sorted(names)
    assert bilevel_names(100, 10)[31] == "c03-f1"


def test_uniform_is_sisa():
    assert uniform(4).shards == ("c0-f0", "c1-f0", "c2-f0", "c3-f0")
    assert len(uniform(4).groups()) == 4


def test_bilevel_has_one_isolated_shard_a_clique():
    assert bilevel(3, 5).edges == frozenset()
    assert len(bilevel(3, 5).shards) == 15


def test_a_clique_is_one_group():
    graph = cliques([["a", "b", "c"], ["d", "e"]])
    assert [group.members for group in graph.groups()] == [("a", "b", "c"), ("d", "e")]
    assert complete(["b", "a"]).groups()[0].members == ("a", "b")


def test_safe_shards_are_read_by_all_and_read_only_each_other():
    graph = safe_shard(["a", "b", "s", "t"], ["s", "t"])
    assert graph.neighbourhood("a") == {"a", "s", "t"}
    assert graph.neighbourhood("s") == {"s", "t"}
    assert graph.readers("s") == {"a", "b", "s", "t"}
    assert len(graph.affected(["a"])) == 1


def test_random_degree_draws_distinct_others_and_is_repeatable():
    graph = random_degree(numbered_names(20), degree=5, seed=3)
    assert all(len(graph.neighbourhood(shard)) == 6 for shard in graph.shards)
    assert graph == random_degree(reversed(numbered_names(20)), degree=5, seed=3)
    assert graph != random_degree(numbered_names(20), degree=5, seed=4)


def test_full_random_degree_is_complete():
    assert random_degree(["a", "b", "c"], degree=2, seed=0) == complete(["a", "b", "c"])
    assert random_degree(["a"], degree=0, seed=0) == isolated(["a"])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: isolated(["a", "a"]), "'a'"),
        (lambda: isolated("abc"), "'abc'"),
        (lambda: cliques([["a", "b"], ["b"]]), "'b'"),
        (lambda: safe_shard(["a"], ["zed"]), "'zed'"),
        (lambda: random_degree(["a", "b"], degree=2, seed=0), "degree .* 2"),
        (lambda: random_degree(["a", "b"], degree=-1, seed=0), "degree .* -1"),
        (lambda: bilevel(0, 1), "coarse .* 0"),
        (lambda: bilevel(1, 1.5), "fine .* 1.5"),
        (lambda: uniform(True), "coarse .* True"),
        (lambda: complete(numbered_names(3000)), "8,997,000"),
    ],
)
def test_bad_input_is_refused_by_name(make, named):
    with pytest.raises(GraphError, match=named):
        make()
