"""The formula for k against exact search, and the budget's edges."""

import math
from decimal import Decimal, getcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardgraph.errors import ConfigError, InputError
from shardgraph.learn.private.accounting.budget import (
    BUDGETS,
    DEFAULT,
    PAPER,
    ROUNDING,
    Budget,
    after,
    check_target,
    largest_epsilon,
    served,
    table,
)

getcontext().prec = 60


def exact_beta(k: int, epsilon: float, delta: float) -> Decimal:
    """delta (1 + e^epsilon + ... + e^{(k-1) epsilon}), to sixty digits."""
    ratio = Decimal(epsilon).exp()
    return Decimal(delta) * sum((ratio**i for i in range(k)), Decimal(0))


def exact_served(budget: Budget, epsilon: float, delta: float) -> int:
    """k by search; budgets are meant up to the rounding of decimals."""
    alpha, beta = (Decimal(each) * (1 + Decimal(ROUNDING)) for each in (budget.alpha, budget.beta))
    k = 0
    while Decimal(epsilon) * (k + 1) <= alpha and exact_beta(k + 1, epsilon, delta) <= beta:
        k += 1
    return k


@settings(max_examples=150)
@given(
    alpha=st.floats(0.5, 40),
    log_beta=st.floats(-20, 0),
    epsilon=st.floats(0.2, 12),
    log_delta=st.floats(-35, -5),
)
def test_k_is_what_exact_search_finds(alpha: float, log_beta: float, epsilon: float, log_delta: float) -> None:
    budget, delta = Budget(alpha, math.exp(log_beta)), math.exp(log_delta)
    assert served(budget, epsilon, delta) == exact_served(budget, epsilon, delta)


@pytest.mark.parametrize("budget", [PAPER, DEFAULT, Budget(30, 1e-6)])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 3.0, 4.0, 0.5, 7.5])
@pytest.mark.parametrize("delta", [1e-10, 1e-11, 1e-12, 1e-13])
def test_the_papers_grid_is_what_exact_search_finds(budget: Budget, epsilon: float, delta: float) -> None:
    assert served(budget, epsilon, delta) == exact_served(budget, epsilon, delta)


def test_decimals_mean_what_they_say() -> None:
    assert served(Budget(1.0, 1), 0.2, 1e-10) == 5
    assert served(Budget(0.3, 1), 0.1, 1e-10) == 3


@given(k=st.integers(1, 60), epsilon=st.floats(1e-6, 10), log_delta=st.floats(-60, -3))
def test_beta_is_computed_stably(k: int, epsilon: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    alpha, beta = after(k, epsilon, delta)
    assert alpha == k * epsilon
    assert math.isclose(beta, float(exact_beta(k, epsilon, delta)), rel_tol=1e-9)


def test_huge_losses_overflow_to_infinity_and_no_removal_costs_nothing() -> None:
    assert after(1000, 10.0, 1e-10) == (10_000.0, math.inf)
    assert after(0, 1.0, 1e-10) == (0.0, 0.0)
    assert after(1, 1.0, 1e-10) == pytest.approx((1.0, 1e-10))


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("budget", [PAPER, DEFAULT])
def test_the_largest_epsilon_serves_k_and_a_larger_one_does_not(k: int, budget: Budget) -> None:
    epsilon = largest_epsilon(k, budget, 1e-11)
    assert served(budget, epsilon, 1e-11) >= k
    assert served(budget, epsilon * (1 + 1e-9), 1e-11) < k


def test_no_epsilon_serves_more_than_delta_allows() -> None:
    with pytest.raises(ConfigError, match="no epsilon serves"):
        largest_epsilon(20, Budget(10, 1e-3), 1e-4)


def test_the_papers_table() -> None:
    lines = table(PAPER).splitlines()
    assert "vacuous" in lines[0]
    assert [[int(k) for k in line.split()[1:]] for line in lines[2:]] == [
        [23, 25, 28, 30],
        [12, 13, 14, 15],
        [8, 9, 10, 10],
        [6, 7, 7, 7],
    ]


def test_presets_say_what_they_are() -> None:
    assert PAPER.vacuous and "vacuous in beta" in str(PAPER)
    assert not DEFAULT.vacuous and DEFAULT.beta <= 1e-3
    assert BUDGETS == {"paper": PAPER, "default": DEFAULT}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: Budget(30, 1.1), ConfigError),
        (lambda: Budget(30, 0.0), ConfigError),
        (lambda: Budget(0, 0.5), ConfigError),
        (lambda: Budget(math.inf, 0.5), ConfigError),
        (lambda: served(PAPER, 0.0, 1e-10), ConfigError),
        (lambda: served(PAPER, 1.0, 0.0), ConfigError),
        (lambda: after(-1, 1.0, 1e-10), InputError),
        (lambda: largest_epsilon(0, PAPER, 1e-10), ConfigError),
        (lambda: check_target(-1.0, 1e-5, 100), ConfigError),
        (lambda: check_target(1.0, 0.01, 100), InputError),
        (lambda: check_target(1.0, 1e-5, 0), InputError),
    ],
)
def test_nonsense_is_refused(call: object, error: type) -> None:
    with pytest.raises(error):
        call()  # type: ignore[operator]


def test_a_delta_below_one_over_n_is_accepted() -> None:
    check_target(1.0, 0.0099, 100)
