"""Group privacy from the accountant's own curve, and the value that keeps releases."""

import math

import pytest

from shardgraph.errors import InputError, WorkspaceError
from shardgraph.learn.private.accounting import Mechanism, epsilon
from shardgraph.learn.private.budget import DEFAULT, PAPER, Budget, after, served
from shardgraph.learn.private.ledger import Guarantee, Releases, guarantee, requests, require, sample_loss
from shardgraph.learn.private.removal import group_alpha, group_served
from tests.learn_private.test_accounting import gaussian_epsilon

BUILD, DELTA = Mechanism(0.05, 10.0, 500), 1e-11


@pytest.mark.parametrize("k", [1, 3, 8])
def test_without_sampling_k_removals_are_a_gaussian_shifted_by_k(k: int) -> None:
    exact = gaussian_epsilon(k * math.sqrt(40) / 20, 1e-4)
    found = group_alpha([(Mechanism(1.0, 20.0, 40), k)], 1e-4)
    assert exact <= found <= exact * 1.02 + 0.02


def test_one_removal_costs_one_samples_epsilon() -> None:
    assert group_alpha([(BUILD, 1)], 1e-6) == pytest.approx(epsilon([BUILD], 1e-6)[0], abs=0.02)  # the grids differ


@pytest.mark.parametrize("k", [2, 4, 9])
def test_the_curve_is_never_worse_than_the_formula(k: int) -> None:
    alpha, beta = after(k, epsilon([BUILD], DELTA)[0], DELTA)
    assert group_alpha([(BUILD, k)], beta) < 1.01 * alpha  # at a beta this tiny its grid rounds up by some thousandths


def test_the_curve_counts_every_release_and_every_removal() -> None:
    one = group_alpha([(BUILD, 2)], 1e-3)
    assert group_alpha([(BUILD, 3)], 1e-3) > one
    assert group_alpha([(BUILD, 2), (BUILD, 2)], 1e-3) > one
    assert group_alpha([(BUILD, 2), (BUILD, 0)], 1e-3) == one
    assert group_alpha([], 1e-3) == 0


def test_the_curve_serves_at_least_what_the_formula_does() -> None:
    by_formula = served(DEFAULT, epsilon([BUILD], DELTA)[0], DELTA)
    count = group_served([BUILD], DEFAULT.alpha, DEFAULT.beta)
    assert count >= by_formula
    assert (
        group_alpha([(BUILD, count)], DEFAULT.beta) <= DEFAULT.alpha < group_alpha([(BUILD, count + 1)], DEFAULT.beta)
    )
    assert group_served([BUILD], DEFAULT.alpha, DEFAULT.beta, most=2) == 2
    assert group_served([BUILD], 1e-3, DEFAULT.beta) == 0


def test_where_the_curve_cannot_answer_the_formula_does() -> None:
    loud = Mechanism(0.05, 0.4, 10)
    assert group_alpha([(loud, 40)], 1e-3) is None
    found = guarantee(Releases().built("g", loud).after_removal(["g"], 40), DEFAULT, DELTA)
    assert found.method.startswith("formula/") and found.alpha == 40 * epsilon([loud], DELTA)[0]


def test_a_sample_loses_over_all_groups_and_all_builds() -> None:
    releases = Releases().built("b", BUILD).built("a", BUILD).built("b", BUILD)
    assert [each.group for each in releases.groups] == ["a", "b"]
    assert sample_loss(releases, DELTA) == epsilon([BUILD] * 3, DELTA)
    assert sample_loss(releases.of(["a"]), DELTA) == epsilon([BUILD], DELTA)
    assert sample_loss(releases.current(), DELTA) == epsilon([BUILD] * 2, DELTA)


def test_removals_are_charged_until_the_group_is_built_anew() -> None:
    releases = Releases().built("a", BUILD).built("b", BUILD)
    assert guarantee(releases, DEFAULT, DELTA) == Guarantee(0.0, 0.0, "pld-group", 0)
    charged = releases.after_removal(["a"], 2).after_removal(["a", "b"])
    assert [each.removed for each in charged.groups] == [3, 1]
    found = guarantee(charged, DEFAULT, DELTA, removed=3)
    assert found == Guarantee(group_alpha([(BUILD, 3), (BUILD, 1)], DEFAULT.beta), DEFAULT.beta, "pld-group", 3)
    assert found.within(DEFAULT)
    rebuilt = charged.built("a", BUILD)
    assert [each.removed for each in rebuilt.groups] == [0, 1]
    # the second build released everybody's samples once more
    again = rebuilt.after_removal(["a"])
    assert guarantee(again.of(["a"]), DEFAULT, DELTA).alpha == group_alpha([(BUILD, 1), (BUILD, 1)], DEFAULT.beta)


def test_the_papers_budget_uses_the_papers_formula() -> None:
    charged = Releases().built("a", BUILD).after_removal(["a"], 4)
    found = guarantee(charged, PAPER, DELTA)
    assert (found.alpha, found.beta) == after(4, epsilon([BUILD], DELTA)[0], DELTA)
    assert found.method == "formula/pld" and found.removed == 4
    count, method = requests([BUILD], PAPER, DELTA)
    assert (count, method) == (served(PAPER, epsilon([BUILD], DELTA)[0], DELTA), "formula/pld")
    assert not guarantee(charged.after_removal(["a"], count), PAPER, DELTA).within(PAPER)


def test_a_spent_budget_is_said() -> None:
    assert require([BUILD], DEFAULT, DELTA) > 1
    with pytest.raises(WorkspaceError, match="is spent"):
        require([BUILD] * 5, Budget(0.05, 1e-6), DELTA)


def test_nothing_can_be_charged_to_what_released_nothing() -> None:
    with pytest.raises(InputError, match="released nothing"):
        Releases().after_removal(["a"])
    with pytest.raises(InputError, match=">= 0"):
        Releases().built("a", BUILD).after_removal(["a"], -1)
    with pytest.raises(InputError, match=">= 0"):
        group_alpha([(BUILD, -1)], 1e-3)


def test_the_value_survives_json() -> None:
    releases = Releases().built("a", BUILD).built("a", BUILD).after_removal(["a"], 5).built("b", BUILD)
    assert Releases.from_json(releases.to_json()) == releases
