from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph.placement import balanced, coarse_of, deal, fine_of

from .strategies import NAMES, columns, quick


@quick
@given(st.integers(0, 2**32), st.integers(0, 99), st.integers(1, 9), st.sets(NAMES, min_size=9, max_size=30))
def test_dealing_is_even(seed, c, fine, classes):
    sizes = Counter(deal(seed, c, fine, tuple(classes)).values())
    assert set(sizes) == set(range(fine))
    assert max(sizes.values()) - min(sizes.values()) <= 1


@quick
@given(st.permutations(["ant", "bee", "cat", "dog", "eel"]))
def test_dealing_ignores_the_order_in_which_classes_are_declared(classes):
    assert deal(0, 1, 2, tuple(classes)) == deal(0, 1, 2, ("ant", "bee", "cat", "dog", "eel"))


def test_coarse_shards_are_dealt_differently():
    classes = tuple(f"class {i}" for i in range(20))
    assert len({tuple(sorted(deal(0, c, 4, classes).items())) for c in range(8)}) == 8


def test_late_labels_are_placed_by_their_own_hash():
    few, many = ("ant", "bee"), ("ant", "bee", "cat", "dog")
    late = [fine_of("late", deal(0, c, 2, few), c=c, fine=2, seed=0) for c in range(16)]
    assert late == [fine_of("late", deal(0, c, 2, many), c=c, fine=2, seed=0) for c in range(16)]
    assert set(late) == {0, 1}


def test_coarse_shards_are_filled_uniformly():
    sizes = Counter(coarse_of(f"img-{i}", "ann", coarse=8, seed=0) for i in range(8000))
    # 1,000 expected a shard, standard deviation sqrt(8000 * 1/8 * 7/8) = 29.6; five of them either way
    assert all(abs(sizes[c] - 1000) < 148 for c in range(8))


@quick
@given(columns(), st.integers(1, 5))
def test_balanced_spreads_every_class_evenly(rows, coarse):
    ids, sources, labels = rows
    split = balanced(ids, sources, labels, coarse=coarse, seed=7)
    for label in set(labels):
        sizes = Counter(c for c, own in zip(split, labels, strict=True) if own == label)
        counts = [sizes[c] for c in range(coarse)]
        assert max(counts) - min(counts) <= 1


@quick
@given(columns(), st.randoms(use_true_random=False))
def test_balanced_ignores_the_order_of_the_input(rows, random):
    ids, sources, labels = rows
    order = list(range(len(ids)))
    random.shuffle(order)
    split = balanced(ids, sources, labels, coarse=3, seed=7)
    mixed = balanced(*([column[i] for i in order] for column in rows), coarse=3, seed=7)
    assert [split[i] for i in order] == mixed


def test_small_classes_do_not_all_meet_in_one_shard():
    labels = [f"class {i}" for i in range(64)]
    split = balanced([str(i) for i in range(64)], [""] * 64, labels, coarse=4, seed=0)
    assert all(Counter(split)[c] >= 6 for c in range(4))  # 16 expected, standard deviation 3.5


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: deal(0, 0, 3, ("cat", "dog")), "3 for 2 classes"),
        (lambda: deal(0, 0, 1, ("cat", "cat")), "'cat'"),
        (lambda: balanced(["x"], ["s"], [], coarse=2, seed=0), "1, 1, 0"),
        (lambda: balanced(["x"], ["s"], ["cat"], coarse=0, seed=0), "coarse .* 0"),
        (lambda: balanced(["x", "x"], ["s", "t"], ["cat", "dog"], coarse=2, seed=0), "'x'"),
    ],
)
def test_bad_input_is_refused_by_name(ask, named):
    with pytest.raises(GraphError, match=named):
        ask()
