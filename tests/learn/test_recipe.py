"""Recipes, and the weight of the prototypes."""

import math
from dataclasses import replace

import pytest

from shardgraph.errors import ConfigError
from shardgraph.learn.recipe import LINEAR, PAPER, RECIPES, Recipe, mixing_weight, recipe


def test_the_recipes_say_what_the_paper_says():
    assert (PAPER.epochs, PAPER.lr, PAPER.weight_decay, PAPER.projection) == (30, 0.05, 1e-4, "random")
    assert (LINEAR.adapter, LINEAR.lr) == ("linear", 3e-4)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_comes_back_from_json(name):
    assert Recipe.from_json(recipe(name).to_json()) == recipe(name)


def test_changes_show_in_the_name_and_none_is_no_change():
    assert recipe("paper", epochs=None) == PAPER
    changed = recipe("paper", epochs=5)
    assert (changed.name, changed.epochs, changed.lr) == ("paper*", 5, 0.05)


@pytest.mark.parametrize(
    "setting",
    [
        {"adapter": "lora"},
        {"projection": "none"},
        {"loss": "mse"},
        {"epochs": 0},
        {"batch": 0},
        {"heads": -1},
        {"lr": 0},
    ],
)
def test_a_setting_that_makes_no_sense_is_named(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Recipe(**setting)


def test_unknown_recipes_and_settings_are_refused():
    with pytest.raises(ConfigError, match="'best'"):
        recipe("best")
    with pytest.raises(ConfigError, match="momentum"):
        Recipe.from_json({"momentum": 0.9})


def test_lambda_follows_the_mean_number_of_samples_per_adapter():
    # m = (10 * 2 + 40 * 1) / 3 = 20, lambda = exp(-20 / 100)
    assert mixing_weight([(10, 2), (40, 1)], PAPER) == math.exp(-0.2)
    assert mixing_weight([(10, 2), (40, 1)], replace(PAPER, prototypes=False)) == 0.0
    assert mixing_weight([], PAPER) == 1.0
    assert mixing_weight([(10, 2)], Recipe(method="second", mixing=0.7)) == 0.7
