"""Epsilons against other implementations and against integrals written here."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scipy.special import log_ndtr

from shardgraph.errors import ConfigError
from shardgraph.learn.private.accounting.mechanism import Mechanism, calibrate, epsilon, merge


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of a Gaussian with shift mu deviations (Balle and Wang 2018, theorem 8)."""

    def gap(e: float) -> float:
        return math.exp(log_ndtr(mu / 2 - e / mu)) - math.exp(e + log_ndtr(-mu / 2 - e / mu)) - delta

    return optimize.brentq(gap, 0, 300, xtol=1e-12)


def one_step_delta(rate: float, noise: float, e: float) -> float:
    """The exact delta of one Poisson sampled Gaussian, the worse of adding and removing."""
    # losses rise with x, so the optimal events are half-lines; the better hypothesis is the one they favour
    removed = (math.exp(e) - 1 + rate) / rate
    at = noise**2 * math.log(removed) + 0.5
    tail = stats.norm(0, noise).sf(at)
    delta_remove = (1 - rate) * tail + rate * stats.norm(1, noise).sf(at) - math.exp(e) * tail
    added = (math.exp(-e) - 1 + rate) / rate
    if added <= 0:
        return delta_remove
    at = noise**2 * math.log(added) + 0.5
    head = stats.norm(0, noise).cdf(at)
    delta_add = head - math.exp(e) * ((1 - rate) * head + rate * stats.norm(1, noise).cdf(at))
    return max(delta_remove, delta_add)


def renyi_epsilon(rate: float, noise: float, steps: int, delta: float) -> float:
    """An upper bound by integration of Renyi divergences at integer orders (Mironov 2017, proposition 3)."""

    def divergence(order: int) -> float:
        def log_integrand(x: float) -> float:
            ratio = math.log1p(rate * math.expm1((2 * x - 1) / (2 * noise**2)))
            return -(x**2) / (2 * noise**2) - math.log(noise * math.sqrt(2 * math.pi)) + order * ratio

        low, high = -12 * noise, order + 12 * noise
        peak = max(log_integrand(x) for x in np.linspace(low, high, 2001))
        area = integrate.quad(lambda x: math.exp(log_integrand(x) - peak), low, high, limit=500)[0]
        return (math.log(area) + peak) / (order - 1)

    return min(steps * divergence(order) + math.log(1 / delta) / (order - 1) for order in range(2, 64))


# TensorFlow Privacy, tutorials/README.md, "Select Parameters": (noise multiplier, epochs, epsilon at delta 1e-5), with
# batches of 256 of MNIST's 60000
MNIST = ((1.12, 60, 2.92), (0.6, 30, 9.74), (1.2, 10, 1.20))


@pytest.mark.parametrize(("noise", "epochs", "published"), MNIST)
def test_the_divergences_integrated_here_give_the_published_epsilons(
    noise: float, epochs: int, published: float
) -> None:
    found = renyi_epsilon(256 / 60000, noise, epochs * 60000 // 256, 1e-5)
    assert found == pytest.approx(published, rel=0.01)  # whole orders only, and two printed decimals


@pytest.mark.parametrize(
    ("mechanism", "delta", "low", "high", "source"),
    [
        # opacus/tests/accountants_test.py: PRV (its own error bound is 0.01) and RDP
        (Mechanism(0.04, 1.5, 2250), 1e-5, 6.777395712150674 - 0.015, 6.777395712150674 + 0.005, "opacus PRV"),
        (Mechanism(0.04, 1.5, 2250), 1e-5, 6.5, 7.32911117143, "opacus RDP"),
        # TensorFlow Privacy, by RDP; PLD is tighter, and not by more than a third
        *((Mechanism(256 / 60000, n, e * 60000 // 256), 1e-5, 0.65 * x, x, "TensorFlow Privacy") for n, e, x in MNIST),
    ],
)
def test_published_epsilons(mechanism: Mechanism, delta: float, low: float, high: float, source: str) -> None:
    found, method = epsilon([mechanism], delta)
    assert low <= found <= high, source
    assert method == "pld"


@pytest.mark.parametrize("delta", [1e-5, 1e-10, 1e-11, 1e-12, 1e-13])
@pytest.mark.parametrize(("noise", "steps"), [(20.0, 100), (50.0, 1000), (300.0, 10_000)])
def test_tiny_deltas_are_on_the_safe_side_of_the_exact_gaussian(noise: float, steps: int, delta: float) -> None:
    exact = gaussian_epsilon(math.sqrt(steps) / noise, delta)
    found, _ = epsilon([Mechanism(1.0, noise, steps)], delta)
    assert exact <= found <= exact * 1.02 + 0.002


@pytest.mark.parametrize("delta", [1e-6, 1e-11, 1e-13])
@pytest.mark.parametrize(("rate", "noise"), [(0.01, 0.7), (0.2, 1.0), (0.5, 3.0)])
def test_one_sampled_step_is_on_the_safe_side_of_the_exact_value(rate: float, noise: float, delta: float) -> None:
    found, _ = epsilon([Mechanism(rate, noise, 1)], delta)
    assert one_step_delta(rate, noise, found) <= delta
    assert one_step_delta(rate, noise, found * 0.97 - 0.01) > delta


@pytest.mark.parametrize("delta", [1e-5, 1e-11])
@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.01, 1.0, 1000), (0.05, 5.0, 1000), (0.2, 10.0, 300)])
def test_epsilon_is_below_renyi_divergences_integrated_here(
    rate: float, noise: float, steps: int, delta: float
) -> None:
    bound = renyi_epsilon(rate, noise, steps, delta)
    found, method = epsilon([Mechanism(rate, noise, steps)], delta)
    assert 0.7 * bound < found < bound and method == "pld"


def test_rdp_answers_where_pld_cannot_and_agrees_with_the_integral() -> None:
    found, method = epsilon([Mechanism(0.05, 5.0, 1000)], 1e-15)
    assert method == "rdp"
    bound = renyi_epsilon(0.05, 5.0, 1000, 1e-15)
    assert 0.9 * bound < found <= bound * 1.001  # the accountant also tries other orders and a better conversion
    assert epsilon([Mechanism(0.5, 1.0, 2000)], 1e-5)[1] == "rdp"  # too much loss for a grid


def test_releases_compose() -> None:
    one, other = Mechanism(0.05, 6.0, 500), Mechanism(0.02, 3.0, 400)
    parts = [epsilon([each], 1e-9)[0] for each in (one, other)]
    both = epsilon([one, other], 1e-9)[0]
    assert max(parts) < both < sum(parts)
    assert epsilon([one, one], 1e-9) == epsilon([Mechanism(0.05, 6.0, 1000)], 1e-9)
    assert epsilon([], 1e-9)[0] == 0
    assert merge([one, other, one]) == (other, Mechanism(0.05, 6.0, 1000))


@pytest.mark.parametrize(
    ("rate", "steps", "wanted", "delta"),
    [(0.05, 1000, 2.0, 1e-11), (0.02, 300, 0.1, 1e-6), (1.0, 50, 8.0, 1e-5), (0.1, 100, 1.0, 1e-15)],
)
def test_calibrated_noise_gives_the_wanted_epsilon_and_not_much_less(
    rate: float, steps: int, wanted: float, delta: float
) -> None:
    noise = calibrate(rate, steps, wanted, delta)
    assert epsilon([Mechanism(rate, noise, steps)], delta)[0] <= wanted
    assert epsilon([Mechanism(rate, noise * 0.995, steps)], delta)[0] > wanted


def test_noise_can_be_calibrated_for_several_releases_together() -> None:
    noise = calibrate(0.05, 200, 2.0, 1e-11, releases=3)
    found, _ = epsilon([Mechanism(0.05, noise, 200)] * 3, 1e-11)
    assert 1.98 < found <= 2.0


def test_sharing_one_clip_among_readers_costs_little_more_than_composing_them() -> None:
    """docs/privacy.md: one Poisson sample for 7 owners with clip / sqrt(7) each, or 7 samples with a clip each."""
    shared = calibrate(0.05, 1000, 2.0, 1e-11) * math.sqrt(7)
    apart = calibrate(0.05, 1000, 2.0, 1e-11, releases=7)
    assert apart < shared < 1.03 * apart
    assert (shared, apart) == pytest.approx((13.8, 13.5), abs=0.06)


@pytest.mark.parametrize(
    "call",
    [
        lambda: calibrate(0.1, 10, 0.0, 1e-5),
        lambda: calibrate(0.1, 10, -1.0, 1e-5),
        lambda: calibrate(0.1, 10, 1.0, 0.0),
        lambda: calibrate(0.1, 10, 1.0, 1.0),
        lambda: calibrate(1.1, 10, 1.0, 1e-5),
        lambda: calibrate(0.1, 0, 1.0, 1e-5),
        lambda: calibrate(0.1, 10, 1.0, 1e-5, releases=0),
        lambda: epsilon([Mechanism(0.1, 1.0, 5)], 2.0),
        lambda: Mechanism(0.1, 0.0, 5),
        lambda: Mechanism(0.1, float("inf"), 5),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    with pytest.raises(ConfigError, match="must be"):
        call()  # type: ignore[operator]
