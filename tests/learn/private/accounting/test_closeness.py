"""Group privacy from the accountant's own curve, the value that keeps releases, and what it means."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardgraph.errors import InputError, WorkspaceError
from shardgraph.learn.private.accounting.budget import DEFAULT, PAPER, Budget, after, served
from shardgraph.learn.private.accounting.closeness import Guarantee, guarantee, left, require, sample_loss, to_rebuild
from shardgraph.learn.private.accounting.mechanism import Mechanism, calibrate, epsilon
from shardgraph.learn.private.accounting.releases import Releases, Removal
from shardgraph.learn.private.accounting.removal import group_alpha
from tests.learn.private.accounting.test_mechanism import gaussian_epsilon

BUILD, DELTA = Mechanism(0.05, 10.0, 500), 1e-11


@pytest.mark.parametrize("k", [1, 4])
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


def test_the_curve_serves_more_than_the_formula_and_not_one_too_many() -> None:
    releases = Releases().built("g", BUILD)
    count = left(releases, ["g"], DEFAULT, DELTA)
    assert count >= served(DEFAULT, epsilon([BUILD], DELTA)[0], DELTA)
    assert (
        group_alpha([(BUILD, count)], DEFAULT.beta) <= DEFAULT.alpha < group_alpha([(BUILD, count + 1)], DEFAULT.beta)
    )
    assert left(releases, ["g"], DEFAULT, DELTA, most=2) == 2
    assert left(releases, ["g"], Budget(1e-3, 1e-3), DELTA) == 0
    assert left(releases.after_removal(["g"], 3), ["g"], DEFAULT, DELTA) == count - 3


def test_the_curve_is_much_better_than_the_formula_at_a_meaningful_beta() -> None:
    """docs/privacy.md, at epsilon 2 and delta 1e-11."""
    build = Mechanism(0.05, calibrate(0.05, 1000, 2.0, 1e-11), 1000)
    assert group_alpha([(build, 8)], 1e-3) == pytest.approx(10.1, abs=0.06)
    assert after(8, 2.0, 1e-11)[0] == 16


def test_where_the_curve_cannot_answer_the_formula_does() -> None:
    loud = Mechanism(0.05, 0.2, 10)
    assert group_alpha([(loud, 40)], 1e-3) is None
    found = guarantee(Releases().built("g", loud).after_removal(["g"], 40), DEFAULT, DELTA)
    assert found.method.startswith("formula/") and found.alpha == 40 * epsilon([loud], DELTA)[0]


def test_a_sample_loses_over_all_its_readers_and_all_their_builds() -> None:
    releases = Releases().built("b", BUILD).built("a", BUILD).built("b", BUILD)
    assert [name for name, _ in releases.builds] == ["a", "b"]
    assert sample_loss(releases, ["a", "b"], DELTA) == epsilon([BUILD] * 3, DELTA)
    assert sample_loss(releases, ["a"], DELTA) == epsilon([BUILD], DELTA)
    assert sample_loss(releases.current(), ["a", "b"], DELTA) == epsilon([BUILD] * 2, DELTA)


def test_removals_are_charged_until_the_group_is_built_anew() -> None:
    releases = Releases().built("a", BUILD).built("b", BUILD)
    assert guarantee(releases, DEFAULT, DELTA) == Guarantee(0.0, 0.0, "pld-group", 0)
    charged = releases.after_removal(["a"], 2).after_removal(["b", "a"])
    assert (charged.removed("a"), charged.removed("b")) == (3, 1)
    found = guarantee(charged, DEFAULT, DELTA)
    assert found == Guarantee(group_alpha([(BUILD, 3), (BUILD, 1)], DEFAULT.beta), DEFAULT.beta, "pld-group", 3)
    assert found.within(DEFAULT)
    rebuilt = charged.built("a", BUILD)
    assert rebuilt.removals == (Removal(("b",), 1),)
    # the second build released everybody's samples once more
    again = rebuilt.after_removal(["a"]).of(["a"])
    assert guarantee(again, DEFAULT, DELTA).alpha == group_alpha([(BUILD, 1), (BUILD, 1)], DEFAULT.beta)


def test_distinct_samples_count_once_each_whoever_read_them() -> None:
    """One sample of each of three shards, each read by the two others: three samples, two charged to each group."""
    releases = Releases()
    for group in "abc":
        releases = releases.built(group, BUILD)
    for readers in ("bc", "ac", "ab"):
        releases = releases.after_removal(readers)
    assert [releases.removed(group) for group in "abc"] == [2, 2, 2]
    found = guarantee(releases, PAPER, DELTA)
    assert found.removed == 3 and found.alpha == 3 * epsilon([BUILD] * 2, DELTA)[0]


def test_the_papers_budget_uses_the_papers_formula() -> None:
    charged = Releases().built("a", BUILD).after_removal(["a"], 4)
    found = guarantee(charged, PAPER, DELTA)
    assert (found.alpha, found.beta) == after(4, epsilon([BUILD], DELTA)[0], DELTA)
    assert found.method == "formula/pld" and found.removed == 4
    count = left(charged, ["a"], PAPER, DELTA)
    assert count + 4 == served(PAPER, epsilon([BUILD], DELTA)[0], DELTA)
    assert not guarantee(charged.after_removal(["a"], count + 1), PAPER, DELTA).within(PAPER)


def test_what_would_overflow_is_to_be_rebuilt_and_no_more() -> None:
    releases = Releases().built("a", BUILD).built("b", BUILD)
    room = left(releases, ["a"], DEFAULT, DELTA)
    full = releases.after_removal(["a"], room)
    assert to_rebuild(full, DEFAULT, DELTA) == ()
    assert to_rebuild(full.after_removal(["a"]), DEFAULT, DELTA) == ("a",)
    assert to_rebuild(releases.after_removal(["a", "b"], 60), DEFAULT, DELTA) == ("a", "b")
    assert guarantee(full.after_removal(["a"]).built("a", BUILD), DEFAULT, DELTA).alpha == 0


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


ACTS = st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from("abc"), min_size=1), st.integers(0, 3)), max_size=8)


@settings(max_examples=60)
@given(ACTS)
def test_charges_are_what_was_removed_since_the_last_build(acts: list) -> None:
    releases, since = Releases(), {}
    for build, groups, count in acts:
        if build:
            for group in sorted(groups):
                releases, since[group] = releases.built(group, BUILD), 0
        elif groups <= set(since):
            releases = releases.after_removal(groups, count)
            since.update({group: since[group] + count for group in groups})
    assert {group: releases.removed(group) for group in since} == since
    assert Releases.from_json(releases.to_json()) == releases
