"""Placement: the contract of every topology, the assignment of classes and the balanced split."""

import json
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import GraphError
from shardgraph.graph import (
    Bilevel,
    BilevelAcross,
    BySource,
    BySourceBilevel,
    Complete,
    OwnGraph,
    RandomDegree,
    ShardGraph,
    Topology,
)
from shardgraph.graph.placement import assign_classes, balanced, coarse_of, fine_of

from .strategies import NAMES, columns, quick

CLASSES = ["ant", "bee", "cat", "dog", "eel"]
OWN = ShardGraph(("ann", "bob/x", "web"), frozenset({("ann", "web")}))
EVERY_KIND = [
    Bilevel(3, 2),
    Bilevel(3, 2, assignment="balanced"),
    BilevelAcross(2, 2),
    BySourceBilevel(2, 2, assignment="balanced"),
    BySource(),
    BySource(safe=("web", "ann")),
    OwnGraph(OWN),
    RandomDegree(5, 2),
    RandomDegree(5, 2, graph_seed=9),
    Complete(4),
]
every_kind = pytest.mark.parametrize("topology", EVERY_KIND, ids=lambda t: t.kind)


def placed(topology: Topology, rows: tuple[list[str], list[str], list[str]]) -> dict[str, str]:
    return dict(zip(rows[0], topology.place_all(*rows, seed=5, classes=CLASSES), strict=True))


@every_kind
@quick
@given(rows=columns(), data=st.data())
def test_other_samples_coming_or_going_never_move_one(topology, rows, data):
    everyone = placed(topology, rows)
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(rows[0])))))) if rows[0] else []
    few = placed(topology, tuple([column[i] for i in kept] for column in rows))
    assert few == {rows[0][i]: everyone[rows[0][i]] for i in kept}


@every_kind
@quick
@given(rows=columns())
def test_placing_one_by_one_equals_placing_all(topology, rows):
    alone = {i: topology.place(i, s, k, seed=5, classes=CLASSES) for i, s, k in zip(*rows, strict=True)}
    assert placed(topology, rows) == alone


@every_kind
def test_last_sample_of_a_class_leaving_moves_nothing(topology):
    ids = [f"img-{i}" for i in range(50)]
    labels = ["eel" if i == 0 else CLASSES[i % 4] for i in range(50)]
    rows = (ids, ["ann"] * 50, labels)
    without = tuple(column[1:] for column in rows)
    assert placed(topology, without) == {i: s for i, s in placed(topology, rows).items() if i != "img-0"}


@every_kind
@quick
@given(rows=columns())
def test_samples_lie_in_the_graph_of_the_shards_present(topology, rows):
    for place in (topology.place_all, topology.place_first):
        present = place(*rows, seed=5, classes=CLASSES)
        assert set(present) <= set(topology.graph(present).shards)


@every_kind
def test_json_round_trip_keeps_the_topology(topology):
    value = json.loads(json.dumps(topology.to_json()))
    assert value["kind"] == topology.kind
    assert Topology.from_json(value) == topology
    assert Topology.from_json(value).to_json() == value
    assert pickle.loads(pickle.dumps(topology)) == topology


def test_names_are_fixed_for_good():
    # Made from the rules with hashlib alone; a change here would move every sample of every workspace.
    assert Bilevel(16, 2).place("img-1", "ann", "cat", seed=0, classes=CLASSES) == "c13-f0"
    assert BilevelAcross(4, 4).place("img-1", "ann", "cat", seed=0, classes=CLASSES) == "ann/c1-f1"
    assert BySourceBilevel(4, 4).place("img-1", "ann", "late", seed=0, classes=CLASSES) == "ann/c1-f2"
    assert Complete(64).place("img-1", "ann", "cat", seed=0, classes=CLASSES) == "s60"


def test_fixed_kinds_have_all_their_shards_whatever_is_present():
    assert len(Bilevel(3, 2).graph([]).shards) == 6
    assert len(RandomDegree(5, 2).graph(["s1"]).edges) == 10
    assert len(Complete(4).graph([]).groups()) == 1
    assert OwnGraph(OWN).graph([]) == OWN


def test_source_kinds_have_exactly_the_shards_present():
    assert BySource(safe=("web",)).graph(["ann", "bob"]).shards == ("ann", "bob")
    assert BySource(safe=("web",)).graph(["ann", "web"]).edges == {("ann", "web")}
    assert BySourceBilevel(2, 1).graph(["ann/c0-f0", "bob/c0-f0"]).edges == frozenset()


def test_across_joins_the_same_clique_of_all_sources():
    graph = BilevelAcross(2, 2).graph(["ann/c0-f0", "bob/x/c0-f0", "ann/c0-f1", "web/c1-f0"])
    assert [group.members for group in graph.groups()] == [
        ("ann/c0-f0", "bob/x/c0-f0"),
        ("ann/c0-f1",),
        ("web/c1-f0",),
    ]


def test_a_class_meets_itself_across_sources():
    for c in range(4):
        fine = {
            name.rpartition("/")[2]
            for i in range(40)
            for source in ("ann", "web")
            if f"/c{c}" in (name := BilevelAcross(4, 4).place(str(i), source, "cat", seed=0, classes=CLASSES))
        }
        assert len(fine) == 1


@pytest.mark.parametrize("kind", [Bilevel, BilevelAcross, BySourceBilevel])
@quick
@given(rows=columns())
def test_balanced_first_placement_changes_the_coarse_shard_alone(kind, rows):
    first = kind(2, 1, assignment="balanced").place_first(*rows, seed=5, classes=CLASSES)
    hashed = kind(2, 1).place_first(*rows, seed=5, classes=CLASSES)
    assert [a.rpartition("c")[0] for a in first] == [b.rpartition("c")[0] for b in hashed]
    assert hashed == kind(2, 1).place_all(*rows, seed=5, classes=CLASSES)


@quick
@given(rows=columns())
def test_balanced_within_a_source_ignores_other_sources(rows):
    topology = BySourceBilevel(3, 2, assignment="balanced")
    everyone = dict(zip(rows[0], topology.place_first(*rows, seed=5, classes=CLASSES), strict=True))
    mine = [i for i, source in enumerate(rows[1]) if source == "ann"]
    own = tuple([column[i] for i in mine] for column in rows)
    assert topology.place_first(*own, seed=5, classes=CLASSES) == [everyone[i] for i in own[0]]


def test_balanced_first_placement_spreads_every_class_over_the_shards():
    ids, labels = [f"img-{i}" for i in range(60)], [CLASSES[i % 5] for i in range(60)]
    first = Bilevel(4, 1, "balanced").place_first(ids, [""] * 60, labels, seed=0, classes=CLASSES)
    assert {(k, s): 3 for k in CLASSES for s in Bilevel(4, 1).graph([]).shards} == {
        (k, s): list(zip(labels, first, strict=True)).count((k, s)) for k in CLASSES for s in set(first)
    }


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: Bilevel(0, 1), "coarse .* 0"),
        (lambda: Bilevel(1, "2"), "fine .* '2'"),
        (lambda: Bilevel(1, 1, "random"), "'random'"),
        (lambda: Bilevel(1, 6).place("x", "s", "cat", seed=0, classes=CLASSES), "6 for 5 classes"),
        (lambda: Bilevel(2, 2).graph(["c9-f9"]), "'c9-f9'"),
        (lambda: BilevelAcross(2, 2).graph(["ann"]), "'ann'"),
        (lambda: BySourceBilevel(2, 2).graph(["ann/c9-f9"]), "'ann/c9-f9'"),
        (lambda: BySource(safe=("a", "a")), "'a'"),
        (lambda: BySource(safe="web"), "'web'"),
        (lambda: RandomDegree(3, 3), "degree .* 3"),
        (lambda: Complete(0), "shards .* 0"),
        (lambda: OwnGraph("web"), "'web'"),
        (lambda: Complete(2).place_all(["x"], [], ["cat"], seed=0, classes=CLASSES), "1, 0, 1"),
        (lambda: Topology.from_json({"kind": "ring"}), "'ring'"),
        (lambda: Topology.from_json({}), "None"),
        (lambda: Topology.from_json("bilevel"), "'bilevel'"),
        (lambda: Topology.from_json({"kind": "bilevel", "coarse": 2}), "'fine'"),
        (lambda: Topology.from_json({"kind": "complete", "shards": 2, "fine": 2}), "'fine'"),
        (lambda: Topology.from_json({"kind": "by-source", "safe": 3}), "3"),
        (
            lambda: Topology.from_json({"kind": "graph", "own": {"shards": ["a"], "edges": [["a", "z"]]}}),
            "'z'",
        ),
    ],
)
def test_bad_input_is_refused_by_name(ask, named):
    with pytest.raises(GraphError, match=named):
        ask()


@pytest.mark.parametrize("topology", [BySource(), BilevelAcross(2, 1), BySourceBilevel(2, 1), OwnGraph(OWN)])
def test_a_sample_without_a_source_is_refused_and_carried(topology):
    with pytest.raises(GraphError) as caught:
        topology.place("img-1", "", "cat", seed=0, classes=CLASSES)
    assert caught.value.ids == ("img-1",)


def test_a_source_outside_your_graph_is_named():
    with pytest.raises(GraphError, match="'carl'"):
        OwnGraph(OWN).place("img-1", "carl", "cat", seed=0, classes=CLASSES)


@quick
@given(st.integers(0, 2**32), st.integers(0, 99), st.integers(1, 9), st.sets(NAMES, min_size=9, max_size=30))
def test_dealing_is_even(seed, c, fine, classes):
    sizes = Counter(assign_classes(seed, c, fine, tuple(classes)).values())
    assert set(sizes) == set(range(fine))
    assert max(sizes.values()) - min(sizes.values()) <= 1


@quick
@given(st.permutations(["ant", "bee", "cat", "dog", "eel"]))
def test_dealing_ignores_the_order_in_which_classes_are_declared(classes):
    assert assign_classes(0, 1, 2, tuple(classes)) == assign_classes(0, 1, 2, ("ant", "bee", "cat", "dog", "eel"))


def test_coarse_shards_are_dealt_differently():
    classes = tuple(f"class {i}" for i in range(20))
    assert len({tuple(sorted(assign_classes(0, c, 4, classes).items())) for c in range(8)}) == 8


def test_late_labels_are_placed_by_their_own_hash():
    few, many = ("ant", "bee"), ("ant", "bee", "cat", "dog")
    late = [fine_of("late", assign_classes(0, c, 2, few), c=c, fine=2, seed=0) for c in range(16)]
    assert late == [fine_of("late", assign_classes(0, c, 2, many), c=c, fine=2, seed=0) for c in range(16)]
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
        (lambda: assign_classes(0, 0, 3, ("cat", "dog")), "3 for 2 classes"),
        (lambda: assign_classes(0, 0, 1, ("cat", "cat")), "'cat'"),
        (lambda: balanced(["x"], ["s"], [], coarse=2, seed=0), "1, 1, 0"),
        (lambda: balanced(["x"], ["s"], ["cat"], coarse=0, seed=0), "coarse .* 0"),
        (lambda: balanced(["x", "x"], ["s", "t"], ["cat", "dog"], coarse=2, seed=0), "'x'"),
    ],
)
def test_classes_and_columns_that_do_not_fit_are_refused_by_name(ask, named):
    with pytest.raises(GraphError, match=named):
        ask()
