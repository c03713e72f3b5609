"""The cryptographic source: its distribution, its tails, its grid, and that nothing repeats."""

import numpy as np
import pytest
from scipy import stats

from shardgraph.learn.private.training.noise import released
from shardgraph.learn.private.training.secure import SecureNoise
from tests.learn.private.problems import NoNoise, SeededNoise

# a correct source fails these with probability 1e-6


def test_normals_are_normal() -> None:
    draws = SecureNoise().normal(200_001)
    assert len(draws) == 200_001 and draws.dtype == np.float64
    assert stats.kstest(draws, "norm").pvalue > 1e-6
    assert stats.kstest(draws[:100_000] + draws[100_000:200_000], stats.norm(scale=2**0.5).cdf).pvalue > 1e-6
    assert len(np.unique(draws)) == len(draws)


class Words(SecureNoise):
    """Given words instead of drawn ones."""

    def __init__(self, words: list[int]) -> None:
        self.given = np.array(words, np.uint64)

    def words(self, count: int) -> np.ndarray:
        return self.given


def test_the_smallest_and_largest_words_give_finite_draws_far_out_and_near_zero() -> None:
    most = 2**64 - 1
    far = Words([0, 0, 0]).normal(1)[0]
    assert 13.2 < far < 13.4  # sqrt(2 * 128.x * log 2) or so: no hole where 53-bit uniforms end, at 8.6
    assert 9.4 < Words([0, most, 0]).normal(1)[0] < 9.5
    assert Words([most, most, 0]).normal(1)[0] < 1e-7


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.9])
def test_each_is_chosen_at_the_rate(rate: float) -> None:
    count = 200_000
    chosen = int(SecureNoise().chosen(rate, count).sum())
    assert stats.binomtest(chosen, count, rate).pvalue > 1e-6
    assert SecureNoise().chosen(1.0, 50).all()


def test_draws_never_repeat() -> None:
    source = SecureNoise()
    assert not np.array_equal(source.normal(100), source.normal(100))
    assert not np.array_equal(SecureNoise().words(4), SecureNoise().words(4))


def test_what_is_released_lies_on_a_grid_that_knows_the_noise_only() -> None:
    total = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    noisy = released(total, 0.7, SeededNoise(1))
    grid = 2.0**-27  # 2^-26 of the power of two below the deviation
    assert np.array_equal(noisy, np.round(noisy / grid) * grid)
    np.testing.assert_allclose(noisy - total, 0.7 * SeededNoise(1).normal(15).reshape(3, 5), atol=grid)
    np.testing.assert_allclose(released(total, 0.7, NoNoise(0)), total, atol=grid)
