"""What SafeClassifier's promise needs: one class list, and samples assigned by hash; and what it refuses."""

import numpy as np
import pytest

from shardgraph.errors import ConfigError, InputError
from shardgraph.forget.classifier import SafeClassifier
from shardgraph.graph import Bilevel
from tests.strategies import LABELS, QUICK, embed, many


@pytest.fixture
def data():
    samples = embed(many(48), dim=16, most_tokens=1)
    return samples.features.astype(np.float64), np.array(samples.labels), np.array(samples.ids)


def digests(data, keep, **options):
    """After `forget` of all but `keep`, and after `fit` of `keep` alone."""
    X, y, ids = data
    forgot = SafeClassifier(recipe=QUICK, **options).fit(X, y, ids=ids).forget(ids[~keep])
    return forgot.digest_, SafeClassifier(recipe=QUICK, **options).fit(X[keep], y[keep], ids=ids[keep]).digest_


@pytest.mark.parametrize("classes", [LABELS, list(LABELS), np.array(LABELS)], ids=["tuple", "list", "array"])
def test_a_class_may_leave_where_classes_are_declared(data, classes):
    forgot, never = digests(data, data[1] != LABELS[1], coarse=2, fine=2, classes=classes)
    assert forgot == never


def test_what_the_promise_excepts(data):
    """Both conditions are needed: without them the digests differ, as the documentation says."""
    forgot, never = digests(data, data[1] != LABELS[1], coarse=2, fine=2)
    assert forgot != never
    forgot, never = digests(data, np.arange(48) % 5 > 0, topology=Bilevel(2, 1, "balanced"))
    assert forgot != never


def test_an_unknown_recipe_is_named_with_those_that_there_are(data):
    X, y, ids = data
    with pytest.raises(ConfigError, match=r"recipe must be one of default.*, got 'nope'"):
        SafeClassifier(recipe="nope").fit(X, y, ids=ids)


def test_a_class_list_is_a_list(data):
    X, y, ids = data
    with pytest.raises(InputError, match="classes must be a list of names"):
        SafeClassifier(classes="ant").fit(X, y, ids=ids)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_score_needs_a_label_for_every_row(data, count):
    X, y, ids = data
    model = SafeClassifier(recipe=QUICK).fit(X, y, ids=ids)
    with pytest.raises(ValueError, match=rf"inconsistent numbers of samples: \[{count}, 48\]"):
        model.score(X, y[:count])
