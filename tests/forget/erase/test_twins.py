"""Twins: found wherever they are, missed by no bound, kept nowhere."""

import numpy as np
import pytest

from shardgraph.errors import InputError
from shardgraph.forget.erase import twins
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.erase.twins import near_pairs, unit_rows
from shardgraph.graph import Bilevel
from shardgraph.storage.samples import Samples, from_arrays
from tests.strategies import QUICK, all_bytes


def samples() -> Samples:
    """Forty samples; b and c hold what a holds (c held out, under another label), d nearly, e is far."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2, 16))
    X[1] = X[2] = X[0]
    X[3] = X[0] + 0.02 * rng.normal(size=(2, 16))
    ids = [*"abcde", *(f"other-{i:02d}" for i in range(35))]
    splits = ["test" if name in ("c", "other-07") else "train" for name in ids]
    labels = ["bee" if i % 2 else "ant" for i in range(40)]
    return from_arrays(X, labels, ids, [f"s{i % 3}" for i in range(40)], splits=splits)


@pytest.fixture
def workspace(create):
    made = create()
    made.add(samples())
    made.train(Bilevel(4, 2), QUICK)
    return made


def pairs(*words):
    return {frozenset(word) for word in words}


def test_exact_and_near_twins_are_found_across_shards_and_splits(workspace):
    found = {frozenset((t.sample, t.other)): t for t in workspace.twins()}
    assert set(found) == pairs("ab", "ac", "bc", "ad", "bd", "cd")
    assert {pair for pair, t in found.items() if t.exact} == pairs("ab", "ac", "bc")
    assert all(0.98 <= t.cosine <= 1 for t in found.values())
    assert any(unit.startswith("test:") for t in found.values() for unit in t.units)
    assert len({unit for t in found.values() for unit in t.units if unit.startswith("shard:")}) > 1


def test_the_twins_of_a_sample(workspace):
    found = workspace.twins(["d"])
    assert {t.other for t in found} == {"a", "b", "c"} and {t.sample for t in found} == {"d"}
    assert not any(t.exact for t in found)
    assert workspace.twins(["e"]) == []
    assert {t.other for t in workspace.twins(["a"], threshold=1.0) if t.exact} == {"b", "c"}


def test_samples_in_the_inbox_are_looked_at_too(create):
    waiting = create("waiting")
    waiting.add(samples())
    assert {t.other for t in waiting.twins(["a"])} == {"b", "c", "d"}


def test_forgetting_with_twins_leaves_what_never_saw_them(workspace, create):
    request = workspace.with_twins(ForgetRequest(samples=("b",)))
    assert set(request.samples) == {"a", "b", "c", "d"}
    certificate = workspace.forget(request)
    assert len(certificate.entries) == 4
    fresh = create("fresh", classes=("ant", "bee"))
    kept = samples()
    fresh.add(kept.take([i for i, name in enumerate(kept.ids) if name not in "abcd"]))
    assert fresh.train(Bilevel(4, 2), QUICK).model_digest == certificate.model_digest


def test_looking_changes_no_byte(workspace):
    workspace.context.catalogue.scrub()
    before = {name: raw for name, raw in all_bytes(workspace.root).items() if not name.endswith("-shm")}
    workspace.twins()
    workspace.twins(["a"])
    assert {name: raw for name, raw in all_bytes(workspace.root).items() if not name.endswith("-shm")} == before


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0], ids=["far apart", "alike", "nearly all the same"])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_the_bound_misses_nobody(spread, width, monkeypatch):
    monkeypatch.setattr(twins, "BLOCK", 37)
    rng = np.random.default_rng(1)
    features = unit_rows((rng.normal(size=(150, width)) + spread * np.ones(width)).astype(np.float32))
    whole = np.triu(np.einsum("if,jf->ij", features.astype(np.float64), features.astype(np.float64)), 1)
    for threshold in (0.9, 0.98):
        expected = set(zip(*(axis.tolist() for axis in np.nonzero(whole >= threshold)), strict=True))
        assert {(i, j) for i, j, _ in near_pairs(features, threshold)} == expected


def test_features_of_zeros_are_near_nobody_but_equal_to_each_other(create):
    zeros = create("zeros")
    zeros.add(from_arrays(np.zeros((3, 4)), ["ant", "bee", "ant"], "xyz"))
    found = zeros.twins()
    assert {frozenset((t.sample, t.other)) for t in found} == pairs("xy", "xz", "yz") and all(t.exact for t in found)


@pytest.mark.parametrize("threshold", [0, -1, 1.5, float("nan")])
def test_a_threshold_must_be_a_cosine(create, threshold):
    with pytest.raises(InputError, match="threshold"):
        create("empty").twins(threshold=threshold)


def test_too_many_pairs_are_refused(workspace, monkeypatch):
    monkeypatch.setattr(twins, "MOST", 3)
    with pytest.raises(InputError, match="higher threshold"):
        workspace.twins()
