"""An empirical lower bound on epsilon, from the scores of many trainings with and without one sample.

(epsilon, delta) limits every test that tries to distinguish the two,

    P(yes | with) <= e^epsilon P(yes | without) + delta,

and the same with the sides changed. Half of the scores choose the test, the other half measure it, with exact
(Clopper and Pearson) intervals. A bound above the ledger's epsilon proves the ledger wrong; one below proves nothing.
"""

import math
from dataclasses import dataclass

import numpy as np

from shardgraph.errors import InputError


@dataclass(frozen=True)
class Test:
    """A threshold test on scores: positive on one side; `inside`: positive means "trained with the sample"."""

    threshold: float
    above: bool
    inside: bool

    __test__ = False  # not one of pytest's

    def rates(self, with_it: np.ndarray, without: np.ndarray) -> tuple[int, int]:
        """The numbers of true and of false positives."""
        right, wrong = (with_it, without) if self.inside else (without, with_it)
        return int(self._positive(right).sum()), int(self._positive(wrong).sum())

    def _positive(self, scores: np.ndarray) -> np.ndarray:
        return scores > self.threshold if self.above else scores <= self.threshold


def epsilon_at_least(with_it: np.ndarray, without: np.ndarray, delta: float, confidence: float = 0.99) -> float:
    """A lower bound on epsilon at `delta` that holds with `confidence`, from scores of independent trainings."""
    with_it, without = np.asarray(with_it, np.float64), np.asarray(without, np.float64)
    if min(len(with_it), len(without)) < 20:
        raise InputError("an audit needs at least 20 trainings with and 20 without the sample")
    if not (np.isfinite(with_it).all() and np.isfinite(without).all()):
        raise InputError("an audit's scores must be finite")
    chosen = best_test(with_it[::2], without[::2], delta, confidence)
    return _bound(chosen, with_it[1::2], without[1::2], delta, confidence)


def best_test(with_it: np.ndarray, without: np.ndarray, delta: float, confidence: float) -> Test:
    """The test that looks best on these scores."""
    thresholds = np.unique(np.quantile(np.concatenate([with_it, without]), np.linspace(0, 1, 201)))
    tests = [Test(float(t), above, inside) for t in thresholds for above in (True, False) for inside in (True, False)]
    return max(tests, key=lambda test: _bound(test, with_it, without, delta, confidence))


def _bound(test: Test, with_it: np.ndarray, without: np.ndarray, delta: float, confidence: float) -> float:
    right, wrong = test.rates(with_it, without)
    counts = (len(with_it), len(without)) if test.inside else (len(without), len(with_it))
    miss = (1 - confidence) / 2  # for each of the two rates
    gain = _lower(right, counts[0], miss) - delta
    return math.log(gain / _upper(wrong, counts[1], miss)) if gain > 0 else -math.inf


def _lower(successes: int, trials: int, miss: float) -> float:
    from scipy.stats import beta  # comes with dp-accounting

    return float(beta.ppf(miss, successes, trials - successes + 1)) if successes else 0.0


def _upper(successes: int, trials: int, miss: float) -> float:
    return 1 - _lower(trials - successes, trials, miss)
