import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph import (
    cliques,
    cliques_cost,
    equal_cliques_cost,
    expected_cost,
    isolated,
    numbered_names,
    random_degree,
    random_degree_cost,
    revisited_samples,
)

from .strategies import graphs, quick


@quick
@given(graphs(), st.data())
def test_expected_cost_equals_enumeration_over_every_sample(graph, data):
    sizes = {shard: data.draw(st.integers(0, 5)) for shard in graph.shards}
    samples = [(shard, i) for shard, size in sizes.items() for i in range(size)]
    if not samples:
        return
    connected = graph.edges | {(s, s) for s in graph.shards}
    costs = []
    for home, _ in samples:  # M_x, sample by sample, as in the paper
        trained = {j for j, read in connected if read == home}
        costs.append(len({x for x in samples if any((j, x[0]) in connected for j in trained)}))
    assert expected_cost(graph, sizes) == sum(costs) / len(samples)


@quick
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 7))
def test_equal_cliques_cost_exactly_d_times_the_shard(clique, number, size):
    names = numbered_names(clique * number)
    graph = cliques(names[i : i + clique] for i in range(0, len(names), clique))
    sizes = dict.fromkeys(names, size)
    assert expected_cost(graph, sizes) == equal_cliques_cost(clique, size) == clique * size


@quick
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=5))
def test_unequal_cliques_cost_exactly_their_squares(parts):
    sizes = {f"{p}-{i}": size for p, part in enumerate(parts) for i, size in enumerate(part)}
    graph = cliques([f"{p}-{i}" for i in range(len(part))] for p, part in enumerate(parts))
    assert expected_cost(graph, sizes) == cliques_cost([sum(part) for part in parts])


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (5, 0), (12, 1), (12, 3), (20, 4), (9, 8)])
def test_random_degree_cost_equals_simulation(n, degree):
    names, size = numbered_names(n), 10
    sizes = dict.fromkeys(names, size)
    means = [expected_cost(random_degree(names, degree, seed), sizes) for seed in range(300)]
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    # four standard errors: one false alarm in 16,000, and the seeds are fixed
    assert abs(np.mean(means) - random_degree_cost(n, degree, size)) <= 4 * error + 1e-9


def test_random_degree_cost_grows_with_the_square_of_the_degree():
    # The theorem's range, d^2 <= C sqrt(n): |M_x| lies between its bounds, and nears d (d + 1) + 1.
    for d in (1, 2, 4, 8):
        cost = random_degree_cost(10**6, d, 1)
        assert d * d <= cost <= (d + 1) ** 2
        assert cost == pytest.approx(1 + 2 * d + d * (d - 1), rel=1e-3)  # first order in 1/n


def test_random_edges_cost_more_than_cliques_of_the_same_degree():
    assert random_degree_cost(64, 7, 10) > 2 * equal_cliques_cost(8, 10)


def test_rates_take_the_place_of_sizes_as_weights():
    graph, sizes = isolated(["a", "b"]), {"a": 10, "b": 30}
    assert expected_cost(graph, sizes) == (10 * 10 + 30 * 30) / 40
    assert expected_cost(graph, sizes, rates={"a": 3.0, "b": 1.0}) == (3 * 10 + 30) / 4
    assert expected_cost(graph, sizes, rates={"a": 0.5}) == 10


def test_empty_shards_cost_nothing():
    graph = cliques([["a", "b"], ["c"]])
    assert revisited_samples(graph, {"a": 4}, "b") == 4
    assert revisited_samples(graph, {"a": 4}, "c") == 0
    assert expected_cost(graph, {"a": 4}) == 4


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda g: revisited_samples(g, {}, "zed"), "'zed'"),
        (lambda g: expected_cost(g, {"zed": 1}), "'zed'"),
        (lambda g: expected_cost(g, {"a": 1}, {"zed": 1}), "'zed'"),
        (lambda g: expected_cost(g, {"a": -1}), "-1 for 'a'"),
        (lambda g: expected_cost(g, {"a": 1}, {"a": float("nan")}), "nan for 'a'"),
        (lambda g: expected_cost(g, {"a": 0}), "none"),
        (lambda g: cliques_cost([0]), "none"),
        (lambda g: equal_cliques_cost(0, 1), "clique .* 0"),
        (lambda g: random_degree_cost(3, 3, 1), "degree .* 3"),
    ],
)
def test_bad_input_is_refused_by_name(ask, named):
    with pytest.raises(GraphError, match=named):
        ask(isolated(["a", "b"]))
