"""Second-order prototypes against their formulas; the predicted errors pair by pair, and against new samples."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.learn import discriminant as module
from shardgraph.learn.discriminant import HALF_LOG_ODDS, choose_shrinkage, discriminant, predicted_errors
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

    expected = 0.4 * standardised(model.adapter_logits(whole)) + 0.6 * standardised(model.similarity(whole))
    assert np.allclose(model.scores(whole), expected.numpy(), atol=1e-5)  # float32, sums in another order


ODDS = [math.exp(x / 2) for x in HALF_LOG_ODDS]


def naive_error(within, means, counts, freedom, s, tails=1.5):
    """The predicted share of errors, an inverse and a pair of classes at a time."""
    sphere = np.trace(within) / len(within) * np.eye(len(within))
    inverse = np.linalg.inv((1 - s) * within + s * sphere)
    trace = np.trace(inverse @ within)
    unseen = 1 - (1 - s) * trace / freedom
    right = 0.0
    for k, mean in enumerate(means):
        chance = 1.0
        for j, other in enumerate(means):
            d = mean - other
            margin = d @ inverse @ d / 2 - trace / unseen / counts[k]
            noise = math.sqrt(d @ inverse @ within @ inverse @ d) / unseen
            chance *= 0.5 * math.erfc(-margin / (tails * noise) / math.sqrt(2)) if j != k else 1.0
        right += counts[k] / sum(counts) * chance
    return 1 - right


def naive_shrinkage(members):
    """What is chosen for classes of described samples, as many as the block holds or fewer."""
    means, counts = np.stack([own.mean(axis=0) for own in members]), [len(own) for own in members]
    centred = np.concatenate([own - mean for own, mean in zip(members, means, strict=True)])
    freedom = len(centred) - len(means)
    within = centred.T @ centred / freedom
    errors = [naive_error(within, means, counts, freedom, x / (1 + x)) for x in ODDS]
    x = ODDS[int(np.argmin(errors))] * 12 * min(len(within) / freedom, 0.6) ** 1.5
    x = min(max(x, 1e-4), 99)
    return x / (1 + x)


def gaussians(generator, each, classes=6, dim=40):
    """Classes with one covariance, long in some directions: their centres, and a source of samples."""
    centres = generator.normal(size=(classes, dim)) * np.linspace(0.2, 1.2, dim) * 0.5
    root = generator.normal(size=(dim, dim)) * np.linspace(0.1, 2, dim) / math.sqrt(dim)
    return [centre + generator.normal(size=(each, dim)) @ root for centre in centres]


def sums(members):
    """square, means and counts, as `choose_shrinkage` takes them."""
    rows = np.concatenate(members)
    means = np.stack([own.mean(axis=0) for own in members])
    counts = np.array([len(own) for own in members], float)
    return torch.from_numpy(np.triu(rows.T @ rows)), torch.from_numpy(means), torch.from_numpy(counts)


def measured_errors(members, fresh, s):
    """The share of new samples that the discriminant takes for another class."""
    means = np.stack([own.mean(axis=0) for own in members])
    centred = np.concatenate([own - mean for own, mean in zip(members, means, strict=True)])
    within = centred.T @ centred / (len(centred) - len(means))
    shrunk = (1 - s) * within + s * np.trace(within) / len(within) * np.eye(len(within))
    weights = np.linalg.solve(shrunk, means.T)
    bias = -0.5 * (means.T * weights).sum(axis=0)
    return np.mean([np.mean((own @ weights + bias).argmax(axis=1) != k) for k, own in enumerate(fresh)])


def test_predictions_equal_the_formula_pair_by_pair():
    members = gaussians(np.random.default_rng(1), 15, dim=12)
    square, means, counts = sums(members)
    within = (np.concatenate([own - own.mean(axis=0) for own in members])) / math.sqrt(84)
    found = predicted_errors(torch.from_numpy(within.T @ within), means, counts, 84.0, [0.01, 0.3, 5.0])
    expected = [
        naive_error(within.T @ within, means.numpy(), counts.numpy(), 84, x / (1 + x)) for x in (0.01, 0.3, 5.0)
    ]
    assert np.allclose(found, expected, rtol=1e-8)
    assert choose_shrinkage(square, means, counts, 0) == pytest.approx(naive_shrinkage(members), rel=1e-9)


@pytest.mark.parametrize("each", [12, 30, 200])
def test_for_gaussians_predictions_come_true(each, monkeypatch):
    monkeypatch.setattr(module, "TAILS", 1.0)
    everything = [gaussians(np.random.default_rng(seed), each + 2000, classes=2) for seed in range(8)]
    odds = [0.001, 0.03, 1.0]
    predicted, measured = [], []
    for whole in everything:
        members = [own[:each] for own in whole]
        _, means, counts = sums(members)
        centred = np.concatenate([own - own.mean(axis=0) for own in members])
        freedom = len(centred) - len(members)
        within = torch.from_numpy(centred.T @ centred / freedom)
        predicted.append(predicted_errors(within, means, counts, float(freedom), odds))
        measured.append([measured_errors(members, [own[each:] for own in whole], x / (1 + x)) for x in odds])
    assert np.allclose(np.mean(predicted, axis=0), np.mean(measured, axis=0), rtol=0.15, atol=0.005)


def test_fewer_samples_are_shrunk_further():
    whole = gaussians(np.random.default_rng(3), 400)
    few, some, lots = (choose_shrinkage(*sums([own[:each] for own in whole]), 0) for each in (6, 20, 400))
    assert few > some > lots


def test_no_choice_is_remembered():
    whole = embed(many(400, labels=("ant", "bee", "cat")), dim=8, most_tokens=3)
    learned = total([whole], second_order=True)
    never = total([whole.take(range(380, 400))], second_order=True)
    own = {len(kept): naive_shrinkage(members(kept)) for kept in (whole, whole.take(range(380, 400)))}
    assert own[20] > 1.1 * own[400]
    before, after = discriminant(learned), discriminant(learned.minus(whole.take(range(380))))
    assert torch.allclose(before.weights, discriminant(learned, own[400]).weights, rtol=1e-4)
    assert torch.allclose(after.weights, discriminant(never, own[20]).weights, rtol=1e-4)


def members(samples):
    """What describes the samples, by class, as the sums see it."""
    rows, labels = quantise(samples.features) / SCALE, np.array(samples.labels)
    return [rows[labels == label] for label in sorted(set(samples.labels))]


def test_a_block_of_many_features_and_classes_is_enough(monkeypatch):
    members = gaussians(np.random.default_rng(5), 30, classes=20, dim=60)
    whole = choose_shrinkage(*sums(members), 40)
    monkeypatch.setattr(module, "BLOCK", 10)
    monkeypatch.setattr(module, "CLASSES", 10)
    seen = []
    monkeypatch.setattr(
        module,
        "predicted_errors",
        lambda w, m, *rest: seen.append((w.shape, m.shape)) or predicted_errors(w, m, *rest),
    )
    part = choose_shrinkage(*sums(members), 40)
    assert seen == [((20, 20), (10, 20))]  # 10 of 20 pooled features, 10 of 40 others, 10 of 20 classes
    assert 0 < part < 1 and 0 < whole < 1


@pytest.mark.parametrize("members", [[(0,)], [(0, 1, 2)], [(0,), (1,)], [(0, 1), (2,)]], ids=str)
def test_hardly_any_sample_gives_a_finite_answer(members):
    rows = np.random.default_rng(0).normal(size=(3, 5))
    found = choose_shrinkage(*sums([rows[list(own)] for own in members]), 0)
    assert 0 < found < 1


def test_how_many_are_features_of_tokens_is_kept_with_the_sums():
    whole = embed(many(30, labels=("ant", "bee")), dim=8, most_tokens=3)
    sums = total([whole], second_order=True, expansion=2)
    assert sums.wide == 16 == Prototypes.from_bytes(sums.to_bytes()).wide
    assert sums.minus(whole).wide == 0 == total([whole], second_order=True).wide
