"""Second-order prototypes: exact integers, and the discriminant against its formula."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.learn.discriminant import discriminant
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import train_group
from shardgraph.learn.prototypes import BLOCK, SCALE, Prototypes, quantise, total
from shardgraph.learn.recipe import Recipe
from tests.strategies import embed, many


def samples(count=40, dim=6):
    return embed(many(count, labels=("ant", "bee", "cat")), dim=dim, most_tokens=2)


@given(st.data())
def test_adding_and_subtracting_in_any_order_gives_the_same_bytes(data):
    whole = samples()
    gone = data.draw(st.lists(st.integers(0, 39), unique=True, max_size=39))
    kept = [i for i in range(40) if i not in gone]
    left = total([whole], second_order=True)
    for i in data.draw(st.permutations(gone)):
        left = left.minus(whole.take([i]))
    assert left.to_bytes() == total([whole.take(kept)], second_order=True).to_bytes()


def test_the_last_sample_leaves_nothing_of_the_second_order():
    whole = samples()
    assert not len(total([whole], second_order=True).minus(whole).outer)


def test_bytes_round_trip():
    value = total([samples()], second_order=True)
    again = Prototypes.from_bytes(value.to_bytes())
    assert again.outer is not None and np.array_equal(again.outer, value.outer)
    assert again.to_bytes() == value.to_bytes()


def test_outer_products_equal_integer_arithmetic():
    whole = samples()
    x = quantise(whole.features).astype(object)  # Python's integers: no rounding anywhere
    sums = total([whole], second_order=True)
    assert (sums.products() == np.triu(x.T @ x)).all()
    assert (sums.outer == (x.T @ x)[np.triu_indices(6)]).all()


def test_a_block_of_products_cannot_leave_the_exact_integers():
    assert BLOCK * SCALE**2 < 2**53


def textbook(whole, s=0.3):
    """The samples and the class means around their common mean, and the inverse of the shrunk covariance."""
    x = quantise(whole.features) / SCALE
    labels = np.array(whole.labels)
    means = np.stack([x[labels == k].mean(axis=0) for k in ("ant", "bee", "cat")])
    centred = x - means[np.searchsorted(["ant", "bee", "cat"], labels)]
    within = centred.T @ centred / (len(x) - 3)
    shrunk = (1 - s) * within + s * np.trace(within) / 6 * np.eye(6)
    return x - x.mean(axis=0), means - x.mean(axis=0), np.linalg.inv(shrunk)


def test_half_the_square_of_a_score_is_the_likelihood_under_the_best_strength():
    whole = samples(200)
    x, means, inverse = textbook(whole)
    said = x @ inverse @ means.T
    own = np.einsum("kf,fg,kg->k", means, inverse, means)
    c = 0.4 * own.mean()
    a = np.linspace(0, 8, 8001)[:, None, None]
    expected = (a * said - a**2 / 2 * own - c / 2 * (a - 1) ** 2).max(axis=0)
    found = discriminant(total([whole], second_order=True), 0.3).scores(whole).numpy()
    shown = found > 0  # else the likeliest strength is none
    assert 0.5 < shown.mean() < 1
    # float32 weights, and strengths in steps of 0.001
    assert np.allclose((found**2 / 2 - c / 2)[shown], expected[shown], rtol=1e-3, atol=1e-3)


def test_a_sure_prior_gives_the_textbook_discriminant_and_none_the_cosine():
    whole = samples(200)
    x, means, inverse = textbook(whole)
    said = x @ inverse @ means.T
    own = np.einsum("kf,fg,kg->k", means, inverse, means)
    sums = total([whole], second_order=True)
    sure = discriminant(sums, 0.3, prior=1e3).scores(whole).numpy()
    c = 1e3 * own.mean()
    # float32 leaves four digits of what a large constant hides, and a thousand is not infinity
    assert np.allclose((sure - c**0.5) * c**0.5, said - own / 2, rtol=0.01, atol=0.02)
    none = discriminant(sums, 0.3, prior=0).scores(whole).numpy()
    assert np.allclose(none, said / own**0.5, rtol=1e-4, atol=1e-4)


def test_one_class_or_classes_that_are_all_alike_have_finite_scores():
    whole = samples()
    for labels in (("ant",) * 40, ("ant", "bee") * 20):
        same = replace(whole.take([i // 2 * 2 for i in range(40)]), ids=whole.ids, labels=labels)
        found = discriminant(total([same], second_order=True))
        assert torch.isfinite(found.scores(same)).all()


def test_one_sample_a_class_falls_back_to_nearest_means():
    few = samples().take([0, 1, 2])
    found = discriminant(total([few], second_order=True), 0.5)
    assert torch.isfinite(found.weights).all()


def test_mixing_standardises_both_parts_per_sample():
    whole = samples(90)
    recipe = Recipe(epochs=2, mixing=0.6)
    adapters = {"g": train_group("g", whole, ("ant", "bee", "cat"), recipe, 0)}
    sums = total([whole], second_order=True)
    model = Model.assemble(adapters, sums, recipe, 0)

    def standardised(y):
        return (y - y.mean(1, keepdim=True)) / y.std(1, keepdim=True, unbiased=False)

    expected = 0.4 * standardised(model.voices(whole)) + 0.6 * standardised(model.similarity(whole))
    assert np.allclose(model.scores(whole), expected.numpy(), atol=1e-5)  # float32, sums in another order
