"""The frozen attention: a function of recipe and seed, and the folding of an orthogonal output projection."""

import pytest
import torch

from shardgraph.errors import ConfigError
from shardgraph.learn.inca import EPS, frozen_attention, layer_norm
from shardgraph.learn.recipe import Recipe


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
