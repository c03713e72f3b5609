"""The terms of private edges: the noise they settle on, what agrees with them, how a budget is named."""

from dataclasses import replace

import pytest

from shardgraph.errors import ConfigError
from shardgraph.learn.private.accounting.budget import DEFAULT, PAPER, Budget
from shardgraph.learn.private.accounting.terms import PrivacyTerms, budget_of
from shardgraph.learn.private.private_recipe import PrivateRecipe
from tests.learn.private.accounting.test_mechanism import gaussian_epsilon

TERMS = PrivacyTerms(2.0, 1e-6, recipe=PrivateRecipe(steps=4))


@pytest.mark.parametrize("readers", [1, 7])
def test_the_noise_is_for_all_readers_of_a_sample_together(readers: int) -> None:
    settled = TERMS.settled(readers)
    # without sampling, the steps of all readers are one Gaussian
    exact = gaussian_epsilon((readers * 4) ** 0.5 / settled.recipe.noise, 1e-6)
    assert 1.97 < exact <= 2.0
    assert settled.settled(readers) == settled
    with pytest.raises(ConfigError, match=f"with {readers + 1} readers"):
        settled.settled(readers + 1)


def test_terms_agree_whatever_the_budget_and_a_noise_left_open() -> None:
    settled = TERMS.settled(2)
    assert settled.agrees(TERMS) and settled.agrees(replace(TERMS, budget=PAPER)) and settled.agrees(settled)
    for other in ({"epsilon": 1.0}, {"delta": 1e-7}, {"every": False}, {"recipe": PrivateRecipe(steps=5)}):
        assert not settled.agrees(replace(TERMS, **other))


def test_terms_survive_json() -> None:
    settled = replace(TERMS.settled(2), budget=PAPER)
    assert PrivacyTerms.from_json(settled.to_json()) == settled


def test_a_budget_has_a_name_or_numbers() -> None:
    assert budget_of() is None
    assert budget_of("paper") == PAPER and PAPER.vacuous and not DEFAULT.vacuous
    assert budget_of(alpha=5.0) == Budget(5.0, DEFAULT.beta) and budget_of("paper", beta=0.5) == Budget(30, 0.5)
    with pytest.raises(ConfigError, match="one of default, paper"):
        budget_of("generous")
    with pytest.raises(ConfigError, match=r"beta must be in \(0, 1\]"):
        budget_of(beta=2.0)
