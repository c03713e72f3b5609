"""Budget: how many samples may be removed before a private adapter must be retrained, by group privacy.

    after k removals   alpha = k epsilon,   beta = delta (e^{k epsilon} - 1) / (e^epsilon - 1)

(paper, appendix "Stochastic forgetting", theorem on group privacy), computed in logarithms.
`python -m shardgraph.learn.private.accounting.budget` prints the paper's table of k.
"""

import math
from dataclasses import dataclass

from shardgraph.errors import ConfigError, InputError
from shardgraph.learn.private.accounting.mechanism import check_delta, check_epsilon

ROUNDING = 1e-12


@dataclass(frozen=True)
class Budget:
    """The largest (alpha, beta) distance between an adapter and one that never saw the forgotten samples."""

    alpha: float
    beta: float
    name: str = "custom"

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise ConfigError(f"the budget's alpha must be a number > 0, got {self.alpha}")
        if not 0 < self.beta <= 1:
            raise ConfigError(f"the budget's beta must be in (0, 1], got {self.beta}")

    @property
    def vacuous(self) -> bool:
        """Whether the budget promises nothing: any two distributions are (alpha, 1)-close."""
        return self.beta >= 1

    def allows(self, alpha: float, beta: float) -> bool:
        """Whether this is within the budget, up to the rounding of decimals: five times 0.2 is within 1."""
        return alpha <= self.alpha * (1 + ROUNDING) and beta <= self.beta * (1 + ROUNDING)

    def __str__(self) -> str:
        note = ", vacuous in beta" if self.vacuous else ""
        return f"{self.name} (alpha {self.alpha:g}, beta {self.beta:g}{note})"


PAPER = Budget(30, 1, "paper")  # its figure; vacuous in beta
DEFAULT = Budget(10, 1e-3, "default")
BUDGETS = {"default": DEFAULT, "paper": PAPER}


def check_target(epsilon: float, delta: float, samples: int) -> None:
    """Refuse an (epsilon, delta) that would permit publishing one of `samples` at random."""
    check_epsilon(epsilon)
    check_delta(delta)
    if samples < 1:
        raise InputError("private edges need samples to learn from, the neighbourhood is empty")
    if delta >= 1 / samples:
        raise InputError(f"delta must be below 1/n = {1 / samples:.3g} for n = {samples} samples, got {delta:g}")


def after(k: int, epsilon: float, delta: float) -> tuple[float, float]:
    """(alpha, beta) after k samples were removed; a beta of 1 or more is no guarantee."""
    if k < 0:
        raise InputError(f"the number of removed samples must be >= 0, got {k}")
    check_epsilon(epsilon)
    check_delta(delta)
    if k == 0:
        return 0.0, 0.0
    log_beta = _log_beta(k, epsilon, delta)
    return k * epsilon, math.exp(log_beta) if log_beta < 700 else math.inf


def served(budget: Budget, epsilon: float, delta: float) -> int:
    """k: the most samples that may be removed within the budget."""
    check_epsilon(epsilon)
    check_delta(delta)
    # log(beta_b (e^epsilon - 1) / delta + 1), without computing e^epsilon
    room = _log1p_exp(math.log(budget.beta / delta) + _log_expm1(epsilon))
    k = math.floor(min(budget.alpha, room) / epsilon)
    while k > 0 and not budget.allows(*after(k, epsilon, delta)):  # the floor of a rounded quotient may be off by one
        k -= 1
    while budget.allows(*after(k + 1, epsilon, delta)):
        k += 1
    return k


def largest_epsilon(k: int, budget: Budget, delta: float) -> float:
    """The largest epsilon with which k samples may be removed within the budget, by bisection."""
    check_delta(delta)
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")
    if k * delta >= budget.beta:
        raise ConfigError(f"no epsilon serves {k} removals: even epsilon 0 has beta {k * delta:g} of {budget.beta:g}")
    low, high = 0.0, budget.alpha / k
    if budget.allows(*after(k, high, delta)):
        return high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if budget.allows(*after(k, middle, delta)) else (low, middle)
    return low


def _log_beta(k: int, epsilon: float, delta: float) -> float:
    return math.log(delta) + _log_expm1(k * epsilon) - _log_expm1(epsilon)


def _log_expm1(x: float) -> float:
    """log(e^x - 1) for x > 0, small or large."""
    return math.log(math.expm1(x)) if x < 30 else x + math.log1p(-math.exp(-x))


def _log1p_exp(x: float) -> float:
    """log(1 + e^x)."""
    return math.log1p(math.exp(x)) if x < 30 else x + math.log1p(math.exp(-x))


def table(budget: Budget = PAPER) -> str:
    """k for the paper's epsilons and deltas, as text."""
    deltas = (1e-10, 1e-11, 1e-12, 1e-13)
    lines = [f"k under {budget}", "epsilon" + "".join(f"{delta:>8.0e}" for delta in deltas)]
    for epsilon in (1.0, 2.0, 3.0, 4.0):
        lines.append(f"{epsilon:>7g}" + "".join(f"{served(budget, epsilon, delta):>8}" for delta in deltas))
    return "\n".join(lines)


if __name__ == "__main__":
    for each in (PAPER, DEFAULT):
        print(table(each), end="\n\n")
