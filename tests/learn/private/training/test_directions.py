"""Few directions for the noise: what they depend on, and that gradients and clipping are those of what is learned."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training.directions import directions, stacked
from shardgraph.learn.private.training.learners import learner
from shardgraph.learn.private.training.masks import checked_masks
from shardgraph.learn.private.training.private_group import private_gradient, train_private_group
from shardgraph.learn.recipe import Recipe
from tests.learn.private.problems import NoNoise, Picks, SeededNoise, make_samples

LINEAR = Recipe(loss="bce", adapter="linear")
CLASSES = ("a", "b", "c")
SAMPLES = make_samples([label for label in CLASSES for _ in range(8)], dim=10)
OWNERS = ["s", "s", "t"]
PRIVACY = PrivateRecipe(noise=2.0, rate=1.0, steps=3, clip=0.3, rank=4, direct_batch=4, direct_steps=2, readers=2)


def problem(samples=SAMPLES):
    """Owner s has the first five samples for its two adapters, t the next five; the others are private to both."""
    direct = np.zeros((3, len(samples)), bool)
    direct[:2, :5], direct[2, 5:10] = True, True
    private = np.zeros_like(direct)
    private[:, 10:] = True
    masks = checked_masks(direct, private, OWNERS, CLASSES, len(samples), 2)
    return masks, learner(samples, CLASSES, masks, LINEAR, 0, PRIVACY.rank), (direct, private)


def test_gradients_are_those_of_the_numbers_learned_privately():
    _, model, _ = problem()
    parameters, rows = model.start("g", CLASSES, 0), torch.arange(6)
    inputs, hot = model.private_inputs[rows], model.targets.private[rows]

    def loss(update, x, target):
        logits = x @ (parameters[0] + model.spread(update)[0]).T
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="sum")

    zero = torch.zeros(1, 3, model.width)
    each = vmap(grad(loss), in_dims=(None, 0, 0))(zero, inputs, hot)  # [B, 1, C, r]
    found = model.private(parameters, rows)
    torch.testing.assert_close(found.squared, each[:, 0].square().sum(-1), rtol=1e-4, atol=1e-6)
    weights = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        found.weighted(weights), torch.einsum("bc,bkcr->kcr", weights, each), rtol=1e-4, atol=1e-5
    )


def test_one_sample_moves_a_sum_by_at_most_the_clip():
    masks, model, _ = problem()
    parameters = model.start("g", CLASSES, 0)
    for row in range(len(masks.private)):
        sums = [private_gradient(model, parameters, masks, PRIVACY, Picks(rows)) for rows in ([1, row], [1])]
        moved = (sums[0] - sums[1]).norm() * PRIVACY.normaliser
        assert moved <= PRIVACY.clip * (1 + 1e-5) and (row == 1 or moved > 0)


def test_an_owners_directions_depend_on_its_own_samples_alone():
    _, model, _ = problem()
    other = SAMPLES.features.copy()
    other[5:] = -3 * other[5:][:, ::-1]
    _, changed, _ = problem(replace(SAMPLES, features=other))
    assert torch.equal(model.ways[0], changed.ways[0]) and not torch.equal(model.ways[1], changed.ways[1])


def test_own_samples_are_about_one_long_and_centred_there():
    inputs = torch.nn.functional.pad(
        torch.randn(200, 30, generator=torch.Generator().manual_seed(1)) * 5 + 2, (0, 1), value=1
    )
    found = inputs @ directions(inputs, 8)
    assert found.mean(dim=0).abs().max() < 1e-4
    assert float(found.square().sum(1).mean()) == pytest.approx(1.0, abs=1e-3)
    torch.testing.assert_close(found.T @ found / 200, torch.eye(8) / 8, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("count", "width"), [(0, 7), (1, 7), (2, 1), (8, 4)])
def test_few_own_samples_give_few_directions_and_none_give_all(count, width):
    inputs = torch.nn.functional.pad(torch.randn(count, 6), (0, 1), value=1)
    ways = directions(inputs, 4)
    assert ways.shape == (7, width) and ways.isfinite().all()


def test_equal_own_samples_give_finite_directions():
    assert directions(torch.ones(6, 5), 3).isfinite().all()


def test_owners_with_fewer_directions_are_padded():
    assert stacked([torch.ones(3, 1), torch.ones(3, 2)])[0].tolist() == [[1, 0]] * 3


def test_more_noise_makes_shorter_steps():
    sizes = [replace(PRIVACY, noise=noise).step_size(1.0) for noise in (0.5, 5.0, 50.0, 500.0)]
    assert sizes == sorted(sizes, reverse=True) and replace(PRIVACY, lr=0.3).step_size(1.0) == 0.3
    blurs = [replace(PRIVACY, noise=noise).blur for noise in (1e-6, 5 * 3**0.5, 1e6)]
    assert blurs == pytest.approx([1.0, 0.5, 0.0], abs=1e-4)


def test_the_noise_of_all_steps_moves_a_logit_as_much_as_was_set_aside():
    """Without private samples chosen, what is left is noise: its spread over many adapters is `blur` per unit input."""
    labels = [f"{i:03d}" for i in range(300)]
    samples = make_samples([*labels, "x"], dim=6)
    direct = np.zeros((300, 301), bool)
    direct[:, :300] = True
    privacy = replace(PRIVACY, rate=1e-12, readers=1, rank=5, clip=1.0)  # LayerNorm leaves five dimensions
    arguments = ("g", samples, tuple(labels), direct, ~direct, replace(LINEAR, lr=1e-12), 0)
    noisy, quiet = (
        train_private_group(*arguments, privacy, noise, ["s"] * 300) for noise in (SeededNoise(0), NoNoise(0))
    )
    inputs = torch.nn.functional.layer_norm(torch.from_numpy(samples.features[:300]), (6,))
    logits = inputs @ torch.from_numpy(noisy.first - quiet.first).T + torch.from_numpy(noisy.second - quiet.second)
    assert float(logits.square().mean().sqrt()) == pytest.approx(privacy.blur, rel=0.05)
