"""SafeClassifier: the shape of scikit-learn, and the promise in memory."""

import numpy as np
import pytest

from shardgraph.errors import DuplicateSample, GraphError, InputError, UnknownSample, WorkspaceError
from shardgraph.forget.classifier import SafeClassifier
from shardgraph.graph import BySource
from tests.strategies import QUICK, embed, many


@pytest.fixture
def data():
    samples = embed(many(80), dim=16, most_tokens=1)
    return samples.features.astype(np.float64), np.array(samples.labels), np.array(samples.ids)


def test_it_learns_predicts_forgets_and_says_so(data):
    X, y, ids = data
    model = SafeClassifier(2, 2, recipe="default").fit(X[:60], y[:60], ids=ids[:60])
    assert model.score(X[60:], y[60:]) > 0.8
    proba = model.predict_proba(X[60:])
    assert proba.shape == (20, 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1)  # floating sum
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(X[60:])).all()
    plan = model.plan_forget(ids[:1])
    assert plan["groups_to_rebuild"] == 1 and 0 < plan["share_of_full_retraining"] < 0.5
    before = model.digest_
    assert model.forget(ids[:1]) is model and model.digest_ != before
    assert SafeClassifier(2, 2).fit(X[1:60], y[1:60], ids=ids[1:60]).digest_ == model.digest_


def test_rows_may_be_known_by_their_numbers_and_labels_by_integers(data):
    X, y, _ = data
    numbers = np.unique(y, return_inverse=True)[1]
    model = SafeClassifier(recipe=QUICK).fit(X, numbers)
    assert (model.predict(X) == numbers).mean() == model.score(X, numbers) > 0.8
    model.forget([0, 5])
    kept = np.setdiff1d(np.arange(len(X)), [0, 5])
    again = SafeClassifier(recipe=QUICK).fit(X[kept], numbers[kept], ids=kept)
    assert again.digest_ == model.digest_


@pytest.mark.parametrize("layout", ["C", "F", "tokens last"])
def test_the_layout_of_the_array_in_memory_does_not_matter(data, layout):
    X, y, ids = data
    tokens = np.stack([np.roll(X, i, axis=1) * (1 + i / 7) for i in range(20)], axis=1)  # [n, 20, d]
    turned = {
        "C": tokens,
        "F": np.asfortranarray(tokens),
        "tokens last": np.ascontiguousarray(tokens.transpose(0, 2, 1)).transpose(0, 2, 1),
    }[layout]
    expected = SafeClassifier(recipe=QUICK).fit(tokens.copy(), y, ids=ids)
    found = SafeClassifier(recipe=QUICK).fit(turned, y, ids=ids)
    assert found.digest_ == expected.digest_
    assert found.predict(turned).tolist() == expected.predict(tokens).tolist()


def test_fitting_again_starts_anew(data):
    X, y, ids = data
    model = SafeClassifier(2, recipe=QUICK).fit(X, y, ids=ids)
    digest = model.digest_
    model.fit(X[:40], y[:40], ids=ids[:40])
    assert model.fit(X, y, ids=ids).digest_ == digest


def test_an_unknown_sample_changes_nothing(data):
    X, y, ids = data
    model = SafeClassifier(2, recipe=QUICK).fit(X, y, ids=ids)
    before = model.digest_
    for ask in (model.forget, model.plan_forget):
        with pytest.raises(UnknownSample, match="nobody") as caught:
            ask([ids[0], "nobody"])
        assert caught.value.ids == ("nobody",)
    assert model.digest_ == before
    model.forget(ids[:1])
    with pytest.raises(UnknownSample):
        model.forget(ids[:1])


BAD = {
    "one dimension": (lambda X, y, ids: SafeClassifier().fit(X[0], y, ids=ids), InputError, "got 1D"),
    "four dimensions": (lambda X, y, ids: SafeClassifier().fit(X[:, None, None], y, ids=ids), InputError, "got"),
    "too few labels": (lambda X, y, ids: SafeClassifier().fit(X, y[:3], ids=ids), InputError, "3 labels"),
    "too few ids": (lambda X, y, ids: SafeClassifier().fit(X, y, ids=ids[:3]), InputError, "3 ids"),
    "too few sources": (lambda X, y, ids: SafeClassifier().fit(X, y, ids=ids, sources=["a"]), InputError, "sources"),
    "NaN": (lambda X, y, ids: SafeClassifier().fit(X * np.nan, y, ids=ids), InputError, "NaN"),
    "too large": (lambda X, y, ids: SafeClassifier().fit(X * 1e6, y, ids=ids), InputError, "must fit float16"),
    "no tokens": (lambda X, y, ids: SafeClassifier().fit(X[:, None][:, :0], y, ids=ids), InputError, "one token"),
    "an id twice": (lambda X, y, ids: SafeClassifier().fit(X, y, ids=[*ids[:79], ids[0]]), DuplicateSample, "once"),
    "too many cliques": (lambda X, y, ids: SafeClassifier(1, 9).fit(X, y, ids=ids), GraphError, "9 for 4"),
    "no source": (lambda X, y, ids: SafeClassifier(topology=BySource()).fit(X, y), GraphError, "'0' has none"),
    "not fitted": (lambda X, y, ids: SafeClassifier().predict(X), WorkspaceError, "fit"),
    "other width": (lambda X, y, ids: SafeClassifier(recipe=QUICK).fit(X, y).predict(X[:, :5]), InputError, "5"),
    "NaN asked": (lambda X, y, ids: SafeClassifier(recipe=QUICK).fit(X, y).predict(X * np.nan), InputError, "NaN"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(data, case):
    act, error, named = BAD[case]
    with pytest.raises(error, match=named):
        act(*data)
