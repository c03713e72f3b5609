"""How far a release is from one that never saw k of its samples: the accountant's own group privacy curve.

Of k samples a Poisson sample holds Binomial(k, rate), and i of them move the clipped sum by at most i clips.
So k removals cost what a mixture of Gaussians with shifts 0..k and those weights costs, which dp-accounting
composes: the vector case is dominated by the scalar one (Choquette-Choo, Ganesh, Steinke, Thakurta 2023,
corollary 4.7), and the bound is tight for Poisson sampling (Ganesh 2024, arXiv 2401.10294). But for the
rounding of its grid it is never worse than the paper's k epsilon, which is used where the grid would not fit.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from shardgraph.errors import InputError
from shardgraph.learn.private.accounting.mechanism import FFT_ROUNDING, Mechanism, check_delta, library, merge

METHOD = "pld-group"
LEAST_BETA = 1e-12
MOST_BINS = 50_000  # of one step's losses, about ten seconds of work

Part = tuple[Mechanism, int]  # a release, and how many samples that it used are gone


def group_alpha(parts: Iterable[Part], beta: float) -> float | None:
    """alpha at `beta` between these releases and those without the removed samples; None if PLD has no result."""
    check_delta(beta)
    merged = _merge(parts)
    if not merged:
        return 0.0
    few = max(1.0, 100 / sum(each.steps for each, _ in merged))  # each step rounds up by up to an interval
    interval = min(1e-2, 1e-3 * (1 + max(k for _, k in merged))) * min(few, 4.0)  # losses grow with k, so may the grid
    if beta < LEAST_BETA or any(_bins(each, k, interval) > MOST_BINS for each, k in merged):
        return None
    return _alpha(merged, beta, interval)


def _merge(parts: Iterable[Part]) -> tuple[Part, ...]:
    by_removed: dict[int, list[Mechanism]] = {}
    for mechanism, k in parts:
        if k < 0:
            raise InputError(f"the number of removed samples must be >= 0, got {k}")
        if k > 0:
            by_removed.setdefault(k, []).append(mechanism)
    return tuple((each, k) for k in sorted(by_removed) for each in merge(by_removed[k]))


def _bins(mechanism: Mechanism, k: int, interval: float) -> float:
    """About how many grid points the losses of one step take: a shift of k, noise up to ten deviations."""
    shift = k / mechanism.noise_multiplier
    return (shift * shift / 2 + 10 * shift) / interval


@lru_cache(maxsize=1024)
def _alpha(parts: tuple[Part, ...], beta: float, interval: float) -> float:
    dp = library()
    event = dp.ComposedDpEvent([_event(dp, *part) for part in parts])
    accountant = dp.pld.PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(event).get_epsilon(beta - FFT_ROUNDING))


def _event(dp: Any, mechanism: Mechanism, k: int) -> Any:
    rate = mechanism.sampling_rate
    if rate == 1:  # the mixture is one Gaussian, which the library composes more quickly
        return dp.SelfComposedDpEvent(dp.GaussianDpEvent(mechanism.noise_multiplier / k), mechanism.steps)
    weights = [math.comb(k, i) * rate**i * (1 - rate) ** (k - i) for i in range(k + 1)]
    mixture = dp.dp_event.MixtureOfGaussiansDpEvent(mechanism.noise_multiplier, list(range(k + 1)), weights)
    return dp.SelfComposedDpEvent(mixture, mechanism.steps)
