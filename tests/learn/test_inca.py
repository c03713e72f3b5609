"""Open-InCA: the frozen attention; forward and backward pass against autograd of the paper's formula."""

import numpy as np
import pytest
import torch

from experiments import masked
from shardgraph.errors import ConfigError
from shardgraph.learn import inca
from shardgraph.learn.group import loss_gradient, loss_value
from shardgraph.learn.inca import EPS, frozen_attention, layer_norm
from shardgraph.learn.recipe import Recipe
from tests.strategies import embed, many


def attention(projection, dim=16, seed=0, heads=2):
    return frozen_attention(dim, Recipe(projection=projection, heads=heads), seed, torch.float64)


@pytest.mark.parametrize("projection", ["orthogonal", "identity"])
def test_folded_head_and_scale_equal_the_product_with_the_output_projection(projection):
    frozen = attention(projection)
    draw = torch.Generator().manual_seed(1)
    o, v = (torch.randn(5, 16, dtype=torch.float64, generator=draw) for _ in range(2))
    projected = o if frozen.wo is None else o @ frozen.wo
    mean = o @ frozen.column_mean(o)
    scale = (torch.linalg.vecdot(o, o) / 16 - mean * mean + EPS).rsqrt()
    folded = torch.linalg.vecdot(o, frozen.fold_head(v)) * scale
    # float64; the orthogonal matrix is one up to rounding
    torch.testing.assert_close(folded, torch.linalg.vecdot(layer_norm(projected), v), rtol=1e-12, atol=1e-12)


def test_unfolding_is_the_transpose_of_folding():
    frozen = attention("orthogonal")
    draw = torch.Generator().manual_seed(2)
    v, grad = (torch.randn(3, 16, dtype=torch.float64, generator=draw) for _ in range(2))
    left, right = (frozen.fold_head(v) * grad).sum(), (v * frozen.unfold_head_grad(grad)).sum()
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)  # float64, other order of sums


def test_orthogonal_matrices_are_orthogonal_and_differ():
    frozen = attention("orthogonal")
    matrices = [frozen.wq, frozen.wk, frozen.wv, frozen.wo]
    for w in matrices:
        torch.testing.assert_close(w @ w.T, torch.eye(16, dtype=torch.float64), rtol=0, atol=1e-12)  # QR in float64
    assert not torch.equal(frozen.wq, frozen.wk)


def test_random_matrices_are_xavier_uniform_and_not_folded():
    frozen = attention("random", dim=64)
    bound = (6 / 128) ** 0.5
    assert not frozen.folded
    assert frozen.wk.abs().max() <= bound
    # the standard deviation of a uniform is bound / sqrt(3); 4096 draws give it to about 1 %
    assert frozen.wk.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


@pytest.mark.parametrize("projection", ["random", "orthogonal"])
def test_the_matrices_follow_from_the_seed_alone(projection):
    torch.manual_seed(7)
    one = attention(projection, seed=5)
    torch.manual_seed(8)
    assert torch.equal(one.wv, attention(projection, seed=5).wv)
    assert not torch.equal(one.wv, attention(projection, seed=6).wv)


def test_heads_must_divide_the_dimension():
    assert Recipe(heads=0).head_count(384) == 6
    assert Recipe(heads=0).head_count(100) == 1
    with pytest.raises(ConfigError, match="3 heads for 16"):
        attention("random", heads=3)


PROJECTIONS = ("random", "orthogonal", "identity")

# Both sides are float64 and differ in the order of sums alone; the values are of order one.
ORDER_OF_SUMS = {"rtol": 1e-11, "atol": 1e-12}


def problem(projection, heads=2, count=7, adapters=3, dim=8, most_tokens=4, seed=3):
    attention = frozen_attention(dim, Recipe(projection=projection, heads=heads), seed, torch.float64)
    samples = embed(many(count), dim=dim, most_tokens=most_tokens)
    keys = inca.project(samples, attention, torch.float64)
    draw = torch.Generator().manual_seed(seed)
    q, v = (torch.randn(adapters, dim, dtype=torch.float64, generator=draw) for _ in range(2))
    return samples, attention, keys, q, v


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_forward_equals_the_formula_with_explicit_projection_and_layer_norm(projection, heads):
    _, attention, keys, q, v = problem(projection, heads)
    assert keys.bias is not None, "tokens of unequal number are wanted here"
    ours = inca.forward(q, v, keys, attention).logits
    torch.testing.assert_close(ours, masked.logits(q, v, keys, attention), **ORDER_OF_SUMS)


@pytest.mark.parametrize("targets", ["all classes", "with background"])
@pytest.mark.parametrize("loss", ["ce", "bce"])
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_gradients_equal_autograd(projection, loss, targets):
    _, attention, keys, q, v = problem(projection)
    background = targets == "with background"
    wanted = torch.tensor([0, 1, 2, 0, 1, -1, -1] if background else [0, 1, 2, 0, 1, 2, 0])
    done = inca.forward(q, v, keys, attention)
    ours = inca.backward(loss_gradient(done.logits, wanted, loss, background), q, v, keys, done, attention)

    q.requires_grad_(), v.requires_grad_()
    loss_value(masked.logits(q, v, keys, attention), wanted, loss, background).backward()
    for mine, theirs in zip(ours, (q.grad, v.grad), strict=True):
        assert theirs.abs().max() > 1e-3, "a zero gradient would prove nothing"
        torch.testing.assert_close(mine, theirs, **ORDER_OF_SUMS)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_padding_does_not_reach_the_logits(projection):
    samples, attention, keys, q, v = problem(projection)
    together = inca.forward(q, v, keys, attention).logits
    for i in range(len(samples)):
        alone = inca.project(samples.take([i]), attention, torch.float64)
        assert alone.bias is None
        torch.testing.assert_close(inca.forward(q, v, alone, attention).logits[0], together[i], **ORDER_OF_SUMS)


def test_taking_rows_equals_projecting_those_samples_alone():
    samples, attention, keys, _, _ = problem("random", most_tokens=1)
    taken = keys.take(torch.tensor([4, 1]))
    alone = inca.project(samples.take([4, 1]), attention, torch.float64)
    # A matrix product of fewer rows may sum in another order.
    torch.testing.assert_close(taken.keys, alone.keys, **ORDER_OF_SUMS)
    torch.testing.assert_close(taken.values, alone.values, **ORDER_OF_SUMS)


def test_a_sample_of_one_token_attends_to_it_alone():
    samples, attention, keys, q, v = problem("identity", heads=1, most_tokens=1)
    token = torch.from_numpy(samples.tokens.astype(np.float64))
    normed = torch.nn.functional.layer_norm(token, (8,))
    by_hand = torch.nn.functional.layer_norm(normed, (8,)) @ v.T
    torch.testing.assert_close(inca.forward(q, v, keys, attention).logits, by_hand, **ORDER_OF_SUMS)
