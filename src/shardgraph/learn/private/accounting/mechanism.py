"""Mechanism: what training with clipped, noisy sums costs in privacy, computed by Google's dp-accounting.

Pure functions; the composition is dp-accounting's. Adjacency: one sample added or removed. PLD is used where possible.
Its FFT rounds at about 1e-15, which is not small compared with a delta of 1e-13, so it is given slightly less than the
wanted delta. Below `LEAST_DELTA`, and where the losses are so large that its grid would not fit, RDP is used, which is
computed in logarithms and always valid.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shardgraph.errors import ConfigError

LEAST_DELTA = 1e-13  # for PLD
FFT_ROUNDING = 1e-14  # subtracted from delta for PLD: ten times the observed rounding
ORDERS = (*range(2, 65), 72, 80, 96, 112, 128, 192, 256, 512)  # of RDP; whole ones have closed forms
MOST_EPSILON = 60.0  # above, PLD would be slow and no removal is within a budget: RDP is enough


@dataclass(frozen=True)
class Mechanism:
    """One release: `steps` sums over a Poisson sample, each with Gaussian noise of noise_multiplier x clip."""

    sampling_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.sampling_rate <= 1:
            raise ConfigError(f"sampling_rate must be in (0, 1], got {self.sampling_rate}")
        if not (self.noise_multiplier > 0 and math.isfinite(self.noise_multiplier)):
            raise ConfigError(f"noise_multiplier must be a number > 0, got {self.noise_multiplier}")
        if self.steps < 1:
            raise ConfigError(f"steps must be at least 1, got {self.steps}")


def epsilon(mechanisms: Iterable[Mechanism], delta: float) -> tuple[float, str]:
    """What all these releases together cost one sample at `delta`, and the method: "pld" or "rdp"."""
    check_delta(delta)
    merged = merge(mechanisms)
    return _epsilon(merged, delta) if merged else (0.0, "pld")


def calibrate(sampling_rate: float, steps: int, epsilon: float, delta: float, releases: int = 1) -> float:
    """The least noise multiplier (within 0.2%) with which `releases` equal releases together cost `epsilon`."""
    check_epsilon(epsilon)
    check_delta(delta)
    Mechanism(sampling_rate, 1.0, steps)
    if releases < 1:
        raise ConfigError(f"releases must be at least 1, got {releases}")
    return _calibrate(sampling_rate, steps * releases, epsilon, delta)


def check_epsilon(value: float) -> None:
    """Raise unless epsilon is a finite number above 0."""
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(f"epsilon must be a number > 0, got {value}")


def check_delta(value: float) -> None:
    """Raise unless delta is a probability between 0 and 1."""
    if not 0 < value < 1:
        raise ConfigError(f"delta must be in (0, 1), got {value}")


def merge(mechanisms: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
    """The same releases with equal ones joined: r times T steps are rT steps."""
    steps: dict[tuple[float, float], int] = defaultdict(int)
    for each in mechanisms:
        steps[each.sampling_rate, each.noise_multiplier] += each.steps
    return tuple(Mechanism(rate, noise, count) for (rate, noise), count in sorted(steps.items()))


def library() -> Any:
    """The module dp_accounting; an error that names the package if it is missing."""
    try:
        import dp_accounting  # optional: training needs none of it, the noise is calibrated beforehand
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as e:
        raise ConfigError("privacy accounting needs dp-accounting: pip install 'shardgraph[dp]'") from e
    return dp_accounting


@lru_cache(maxsize=4096)
def _epsilon(mechanisms: tuple[Mechanism, ...], delta: float) -> tuple[float, str]:
    dp = library()
    event = dp.ComposedDpEvent([_event(each) for each in mechanisms])
    bound = float(dp.rdp.RdpAccountant(ORDERS).compose(event).get_epsilon(delta))
    if delta < LEAST_DELTA or not bound <= MOST_EPSILON:
        return bound, "rdp"
    found = float(_pld(dp, bound).compose(event).get_epsilon(delta - FFT_ROUNDING))
    return (found, "pld") if found <= bound else (bound, "rdp")


@lru_cache(maxsize=1024)
def _calibrate(rate: float, steps: int, wanted: float, delta: float) -> float:
    dp = library()

    def search(accountant: Any, at: float, bracket: Any) -> float:
        return float(
            dp.calibrate_dp_mechanism(
                accountant, lambda noise: _event(Mechanism(rate, noise, steps)), wanted, at, bracket, tol=1e-4
            )
        )

    noise = search(lambda: dp.rdp.RdpAccountant(ORDERS), delta, dp.LowerEndpointAndGuess(0.05, 1.0))
    if delta >= LEAST_DELTA and wanted <= MOST_EPSILON:
        try:  # PLD never needs more noise than RDP
            bracket = dp.ExplicitBracketInterval(0.5 * noise, noise)
            noise = search(lambda: _pld(dp, wanted), delta - FFT_ROUNDING, bracket)
        except ValueError:
            pass  # no better than RDP
    noise = math.ceil(noise * 1e4) / 1e4
    while _epsilon((Mechanism(rate, noise, steps),), delta)[0] > wanted:
        noise *= 1.001
    return noise


def _event(mechanism: Mechanism) -> Any:
    dp = library()
    gaussian = dp.GaussianDpEvent(mechanism.noise_multiplier)
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(mechanism.sampling_rate, gaussian), mechanism.steps)


def _pld(dp: Any, about: float) -> Any:
    """PLD on a grid of losses fit for an epsilon of about this size; it rounds to the safe side."""
    return dp.pld.PLDAccountant(value_discretization_interval=1e-3 if about >= 1 else 1e-4 if about >= 0.1 else 1e-5)
