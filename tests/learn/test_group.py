"""Training of one group: a pure function for every adapter, projection and loss; losses, optimiser against torch's."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from experiments import masked
from shardgraph.learn import inca
from shardgraph.learn.group import AdamW, batches, cosine, initial_parameters, loss_gradient, loss_value, train_group
from shardgraph.learn.inca import frozen_attention, layer_norm
from shardgraph.learn.recipe import Recipe
from tests.strategies import LABELS, embed, many, rows, trained_recipes

KINDS = [("inca", p) for p in ("random", "orthogonal", "identity")] + [("linear", "identity")]
RECIPES = [
    Recipe(name=f"{a}-{p}-{loss}", adapter=a, projection=p, loss=loss, heads=2, epochs=2, batch=5, lr=0.05)
    for (a, p), loss in product(KINDS, ("ce", "bce"))
]
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
CLASSES = ("ant", "bee", "cat")  # many() also holds dogs, a background


def train(recipe, samples=None, name="g", seed=0):
    samples = embed(many(23), dim=32, most_tokens=5) if samples is None else samples
    return train_group(name, samples, CLASSES, recipe, seed).to_bytes()


@contextmanager
def put_back(set_to: Callable, now: object, before: object) -> Iterator[None]:
    set_to(now)
    try:
        yield
    finally:
        set_to(before)


@every_recipe
def test_the_same_call_gives_the_same_bytes_in_any_company(recipe):
    first = train(recipe)
    train(recipe, name="another group")
    train(recipe, embed(many(9)[:5]), seed=1)
    assert train(recipe) == first


@every_recipe
def test_the_order_of_the_samples_does_not_matter(recipe):
    samples = embed(many(23), dim=32, most_tokens=5)
    shuffled = samples.take(np.random.default_rng(0).permutation(len(samples)))
    assert shuffled.ids != samples.ids
    assert train(recipe, shuffled) == train(recipe, samples)


AMBIENT = {
    "threads": lambda: put_back(torch.set_num_threads, 3, torch.get_num_threads()),
    "matmul precision": lambda: put_back(
        torch.set_float32_matmul_precision, "medium", torch.get_float32_matmul_precision()
    ),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default dtype": lambda: put_back(torch.set_default_dtype, torch.float64, torch.get_default_dtype()),
    "gradients on": torch.enable_grad,
    "torch's seed": lambda: put_back(torch.manual_seed, 99, 0),
    "numpy's seed": lambda: put_back(np.random.seed, 99, 0),
    "python's seed": lambda: put_back(random.seed, 99, 0),
}


@pytest.mark.parametrize("setting", AMBIENT)
@every_recipe
def test_no_global_setting_reaches_the_bytes(recipe, setting):
    expected = train(recipe)
    with AMBIENT[setting]():
        assert train(recipe) == expected


def test_threads_change_no_bit_where_they_could():
    """At this size two threads would sum in another order on the machine where this was written."""
    samples, recipe = embed(many(64), dim=1024, most_tokens=16), Recipe(projection="random", epochs=1)
    found = set()
    for threads in (1, 2, 3):
        with put_back(torch.set_num_threads, threads, torch.get_num_threads()):
            found.add(train(recipe, samples))
    assert len(found) == 1


def test_global_settings_are_as_before_afterwards():
    with AMBIENT["threads"](), AMBIENT["matmul precision"](), AMBIENT["default dtype"]():
        train(RECIPES[0])
        assert torch.get_num_threads() == 3
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.get_default_dtype() == torch.float64


@every_recipe
def test_name_seed_and_recipe_all_matter(recipe):
    different = [train(recipe), train(recipe, name="h"), train(recipe, seed=1)]
    other = Recipe.from_json({**recipe.to_json(), "lr": 0.04})
    assert len({*different, train(other)}) == 4


@every_recipe
def test_one_sample_more_or_less_changes_the_adapters(recipe):
    samples = embed(many(23), dim=32, most_tokens=5)
    assert train(recipe, samples.take(range(22))) != train(recipe, samples)


@settings(max_examples=40)
@given(drawn=rows(most=10, least=2), recipe=trained_recipes(), order=st.randoms())
def test_bytes_are_a_function_of_the_set_of_samples(drawn, recipe, order):
    shuffled = list(drawn)
    order.shuffle(shuffled)
    one, two = (train_group("g", embed(part), LABELS, recipe, 0).to_bytes() for part in (drawn, shuffled))
    assert one == two


@every_recipe
def test_training_is_the_textbook_loop(recipe):
    """Autograd and torch.optim.AdamW on the formulas, in float64, with our schedule and initial values."""
    samples = embed(many(23), dim=32, most_tokens=5).canonical()
    targets = torch.tensor([CLASSES.index(label) if label in CLASSES else -1 for label in samples.labels])
    start = initial_parameters("g", CLASSES, 32, 0).double()
    if recipe.adapter == "inca":
        attention = frozen_attention(32, recipe, 0, torch.float64)
        keys = inca.project(samples, attention, torch.float64)
        first, second = (part.clone().requires_grad_() for part in start.chunk(2))

        def logits(chosen):
            return masked.logits(first, second, keys.take(chosen), attention)
    else:
        inputs = layer_norm(torch.from_numpy(samples.features).double())
        first, second = start.chunk(2)[1].clone().requires_grad_(), torch.zeros(3).double().requires_grad_()

        def logits(chosen):
            return inputs[chosen] @ first.T + second

    optimiser = torch.optim.AdamW([first, second], lr=1.0, weight_decay=recipe.weight_decay)
    for lr, chosen in batches("g", len(samples), recipe, 0):
        chosen = torch.from_numpy(chosen)
        optimiser.param_groups[0]["lr"] = lr
        optimiser.zero_grad()
        loss_value(logits(chosen), targets[chosen], recipe.loss, background=True).backward()
        optimiser.step()
    ours = train_group("g", samples, CLASSES, recipe, 0)
    # float32 against float64: AdamW divides by the gradient's size, so a rounding in a small gradient shows
    for mine, theirs in ((ours.first, first), (ours.second, second)):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=2e-3, atol=2e-3)


def test_an_epoch_shows_every_sample_once_in_an_order_of_its_own():
    recipe = Recipe(epochs=3, batch=4, lr=0.1)
    steps = list(batches("g", 10, recipe, 0))
    assert [len(chosen) for _, chosen in steps] == [4, 4, 2] * 3
    epochs = [np.concatenate([chosen for _, chosen in steps[i : i + 3]]).tolist() for i in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    rates = [lr for lr, _ in steps]
    assert rates[0] == 0.1 and rates == sorted(rates, reverse=True) and rates[-1] > 0


def test_the_initial_values_of_a_class_depend_on_no_other_class():
    three, two = initial_parameters("g", ("a", "b", "c"), 8, 0), initial_parameters("g", ("a", "c"), 8, 0)
    assert torch.equal(three[[0, 2, 3, 5]], two)


def by_torch(logits, targets, loss, background):
    """The loss spelled with torch's functions: a negative of all for "bce", a logit of zero for "ce"."""
    if loss == "bce":
        hot = torch.stack([(targets == k).to(logits.dtype) for k in range(logits.shape[1])], dim=1)
        return binary_cross_entropy_with_logits(logits, hot, reduction="none").sum(dim=1).mean()
    if background:
        logits = torch.cat([logits, logits.new_zeros(len(logits), 1)], dim=1)
        targets = torch.where(targets < 0, logits.shape[1] - 1, targets)
    return cross_entropy(logits, targets)


CASES = [
    ("ce", False, [0, 1, 2, 2, 0]),
    ("ce", True, [0, -1, 2, -1, 1]),
    ("ce", True, [0, 1, 2, 2, 0]),  # the group knows a background, this batch has none of it
    ("bce", False, [0, 1, 2, 2, 0]),
    ("bce", True, [0, -1, 2, -1, 1]),
]


@pytest.mark.parametrize(("loss", "background", "targets"), CASES)
def test_value_and_gradient_are_those_of_torch(loss, background, targets):
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.tensor(targets)
    expected = by_torch(logits, targets, loss, background)
    expected.backward()
    torch.testing.assert_close(loss_value(logits, targets, loss, background), expected)
    ours = loss_gradient(logits.detach(), targets, loss, background)
    torch.testing.assert_close(ours, logits.grad, rtol=1e-12, atol=1e-15)  # float64, other order of sums


def test_bce_leaves_the_adapters_independent():
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([0, 1, 2, 2, 0])
    whole = loss_gradient(logits, targets, "bce", False)
    alone = loss_gradient(logits[:, :1], torch.where(targets == 0, 0, -1), "bce", True)
    assert torch.equal(whole[:, :1], alone)


def test_adamw_moves_as_torch_does():
    draw = torch.Generator().manual_seed(0)
    ours = torch.randn(6, 4, dtype=torch.float64, generator=draw)
    theirs = torch.nn.Parameter(ours.clone())
    mine, reference = AdamW(ours, 0.1), torch.optim.AdamW([theirs], lr=1.0, weight_decay=0.1)
    start = ours.clone()
    for step in range(20):
        grad = torch.randn(6, 4, dtype=torch.float64, generator=draw)
        lr = cosine(0.05, step, 20)
        mine.step(grad, lr)
        reference.param_groups[0]["lr"] = lr
        theirs.grad = grad.clone()
        reference.step()
    assert (ours - start).abs().min() > 1e-3
    # float64; torch multiplies by the bias correction where we divide, a rounding apart at each step
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-13)


def test_cosine_starts_at_lr_halves_in_the_middle_and_approaches_zero():
    assert cosine(0.05, 0, 10) == 0.05
    assert abs(cosine(0.05, 5, 10) - 0.025) < 1e-12
    assert 0 < cosine(0.05, 9, 10) < 0.0013
