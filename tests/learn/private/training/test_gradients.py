"""Closed-form per-sample gradients against torch.func, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap

from experiments import masked
from shardgraph.learn.inca import Keys, frozen_attention, project
from shardgraph.learn.private.training.gradients import LinearGradients, OwnedGradients, clip_weights, inca_gradients
from shardgraph.learn.recipe import Recipe
from tests.learn.private.problems import make_samples

CLASSES, SAMPLES, DIM = 3, 6, 12


def _binary(logits: Tensor, hot: Tensor, used: Tensor) -> Tensor:
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, hot, reduction="none")
    return (losses * used).sum()


def _reference(q: Tensor, v: Tensor, keys: Keys, used: Tensor, hot: Tensor, attention: object) -> tuple[Tensor, Tensor]:
    """[B, C, D] twice: the gradient of every sample's loss, by torch.func over the paper's formula."""

    def loss(q: Tensor, v: Tensor, k: Tensor, x: Tensor, bias: Tensor, used: Tensor, hot: Tensor) -> Tensor:
        one = Keys(k.unsqueeze(1), x.unsqueeze(1), bias.unsqueeze(0))
        return _binary(masked.logits(q, v, one, attention)[0], hot, used)

    bias = torch.zeros(keys.keys.shape[1:3], dtype=q.dtype) if keys.bias is None else keys.bias
    each = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, None, 1, 1, 0, 0, 0))
    return each(q, v, keys.keys, keys.values, bias, used.to(q.dtype), hot)


def _problem(projection: str, ragged: bool, heads: int = 2) -> tuple:
    torch.manual_seed(0)
    attention = frozen_attention(DIM, Recipe(projection=projection, heads=heads), seed=5, dtype=torch.float64)
    samples = make_samples(list("aabbcd"), DIM, tokens=4, ragged=ragged)
    keys = project(samples, attention, torch.float64)
    q, v = torch.randn(CLASSES, DIM, dtype=torch.float64) * 2 + 1, torch.randn(CLASSES, DIM, dtype=torch.float64)
    used = torch.rand(SAMPLES, CLASSES) < 0.7
    hot = (torch.rand(SAMPLES, CLASSES) < 0.4).double()
    return q, v, keys, used, hot, attention


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("projection", ["identity", "orthogonal", "random"])
def test_inca_norms_and_sums_are_those_of_torch_func(projection: str, ragged: bool) -> None:
    problem = _problem(projection, ragged)
    by_q, by_v = _reference(*problem)
    found = inca_gradients(*problem)
    norms = by_q.square().sum(-1) + by_v.square().sum(-1)
    # float64: sums of hundreds of terms agree to 1e-10; the closed form is rounded up by 32 machine epsilons
    torch.testing.assert_close(found.squared, norms, rtol=1e-9, atol=1e-12)
    weights = torch.rand(SAMPLES, CLASSES, dtype=torch.float64)
    expected = torch.stack([(weights.unsqueeze(-1) * each).sum(0) for each in (by_q, by_v)])
    torch.testing.assert_close(found.weighted(weights), expected, rtol=1e-9, atol=1e-12)


def test_linear_norms_and_sums_are_those_of_torch_func() -> None:
    torch.manual_seed(1)
    w, x = torch.randn(CLASSES, DIM).double(), torch.randn(SAMPLES, DIM).double()
    used, hot = torch.rand(SAMPLES, CLASSES) < 0.7, (torch.rand(SAMPLES, CLASSES) < 0.4).double()
    each = vmap(grad(lambda w, x, u, h: _binary(x @ w.T, h, u)), in_dims=(None, 0, 0, 0))(w, x, used.double(), hot)
    found = LinearGradients(torch.where(used, torch.sigmoid(x @ w.T) - hot, 0.0), x)
    torch.testing.assert_close(found.squared, each.square().sum(-1))
    weights = torch.rand(SAMPLES, CLASSES).double()
    torch.testing.assert_close(found.weighted(weights)[0], (weights.unsqueeze(-1) * each).sum(0))


@pytest.mark.parametrize("projection", ["identity", "orthogonal", "random"])
def test_norms_in_float32_are_never_too_small_to_matter(projection: str) -> None:
    problem = _problem(projection, ragged=False)
    by_q, by_v = _reference(*problem)
    exact = (by_q.square().sum(-1) + by_v.square().sum(-1)).sqrt()
    q, v, keys, used, hot, attention = problem
    attention = frozen_attention(DIM, Recipe(projection=projection, heads=2), seed=5)
    short = Keys(keys.keys.float(), keys.values.float(), None)
    found = inca_gradients(q.float(), v.float(), short, used, hot.float(), attention).squared.sqrt().double()
    assert (found >= exact * (1 - 1e-4)).all()  # clipping leaves a thousandth for rounding


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-3, 10), st.integers(1, 4))
def test_no_sample_moves_the_sum_by_more_than_the_clip(seed: int, clip: float, owners: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    size, adapters = 5, 2 * owners
    gradients = torch.randn(size, adapters, 3, generator=rng) * 10 ** (6 * torch.rand(size, 1, 1, generator=rng) - 3)
    of = torch.arange(adapters) % owners
    share = clip / owners**0.5
    weights = clip_weights(gradients.square().sum(-1), of, share)
    moved = (weights.unsqueeze(-1) * gradients).flatten(1).norm(dim=1)
    assert (moved <= clip).all()
    small = gradients.square().sum(-1)
    below = torch.zeros(size, owners).index_add_(1, of, small).sqrt() < 0.99 * share
    assert (weights[below[:, of]] == 1).all()  # what is below is left alone


def test_one_owners_gradient_does_not_change_anothers_clipping() -> None:
    squared = torch.tensor([[4.0, 9.0, 1.0]])
    owners = torch.tensor([0, 1, 1])
    louder = squared * torch.tensor([[1e6, 1.0, 1.0]])
    assert torch.equal(clip_weights(squared, owners, 0.5)[:, 1:], clip_weights(louder, owners, 0.5)[:, 1:])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_counts_as_zero(bad: float) -> None:
    slope = torch.tensor([[1.0, 1.0], [bad, 1.0]])
    found = LinearGradients(slope, torch.ones(2, 4))
    total = found.weighted(clip_weights(found.squared, torch.tensor([0, 1]), 1.0))
    assert total.isfinite().all()
    np.testing.assert_allclose(total[0, 0].norm().item(), 1.0, atol=2e-3)  # the other sample, clipped


def test_an_inca_gradient_that_is_not_finite_counts_as_zero_for_its_owner_alone() -> None:
    q, v, keys, used, hot, attention = _problem("identity", ragged=False)
    v[1] = torch.inf
    found = inca_gradients(q, v, keys, torch.ones_like(used), hot, attention)
    total = found.weighted(clip_weights(found.squared, torch.tensor([0, 1, 2]), 1.0))
    assert total.isfinite().all()
    assert total[:, 1].abs().max() == 0 and total[:, [0, 2]].abs().max() > 0


@pytest.mark.parametrize("owned", [False, True], ids=["all directions", "directions of its owners"])
def test_a_linear_sample_that_is_not_finite_counts_as_zero(owned):
    slope, inputs = torch.randn(SAMPLES, CLASSES), torch.randn(SAMPLES, DIM)
    whole, owners = torch.cat([inputs, torch.full((1, DIM), torch.nan)]), torch.tensor([0, 0, 1])
    slopes = torch.cat([slope, torch.full((1, CLASSES), torch.nan)])

    def total(slope: Tensor, inputs: Tensor) -> Tensor:
        adapters = [torch.tensor([0, 1]), torch.tensor([2])]
        found = OwnedGradients(slope, [inputs, inputs], adapters) if owned else LinearGradients(slope, inputs)
        return found.weighted(clip_weights(found.squared, owners, 1.0))

    assert torch.equal(total(slopes, whole), total(slope, inputs))
