"""Mixed training: what it learns, what each part may depend on, what it refuses."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from shardgraph.errors import ConfigError, InputError
from shardgraph.learn.inca import Adapters, forward, frozen_attention, project
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training import learners
from shardgraph.learn.private.training.noise import NoiseSource
from shardgraph.learn.private.training.private_group import train_private_group
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples
from tests.learn.private.problems import NoNoise, Picks, SeededNoise, by_class, make_samples

CLASSES = ("a", "b", "c")
LABELS = [label for label in CLASSES for _ in range(8)]
INCA, LINEAR = Recipe(loss="bce", heads=1), Recipe(loss="bce", adapter="linear")
PRIVACY = PrivateRecipe(
    noise=1.0, rate=0.4, steps=12, clip=0.5, normaliser=8, lr=0.5, direct_batch=4, direct_steps=1, rank=0, readers=2
)
KINDS = pytest.mark.parametrize("recipe", [INCA, LINEAR], ids=["inca", "linear"])


def train(
    samples: Samples, recipe: Recipe = INCA, noise: NoiseSource | None = None, privacy: PrivateRecipe = PRIVACY
) -> Adapters:
    direct, private = by_class(samples.labels, CLASSES)
    return train_private_group(
        "g", samples, CLASSES, direct, private, recipe, 0, privacy, noise or SeededNoise(1), owners=None
    )


def changed(samples: Samples, row: int, factor: float = -3.0) -> Samples:
    """The same samples, one with other contents."""
    tokens, features = samples.tokens.copy(), samples.features.copy()
    start, end = samples.offsets[row], samples.offsets[row + 1]
    tokens[start:end] = factor * tokens[start:end][:, ::-1] + 1
    features[row] = factor * features[row][::-1] + 1
    return replace(samples, tokens=tokens, features=features)


def accuracy(adapters: Adapters, samples: Samples) -> float:
    if adapters.kind == "linear":
        features = torch.nn.functional.layer_norm(torch.from_numpy(samples.features), samples.features.shape[1:])
        logits = features @ torch.from_numpy(adapters.first).T + torch.from_numpy(adapters.second)
    else:
        attention = frozen_attention(samples.tokens.shape[1], INCA, 0)
        q, v = torch.from_numpy(adapters.first), torch.from_numpy(adapters.second)
        logits = forward(q, v, project(samples, attention), attention).logits
    return float(np.mean([CLASSES[i] == label for i, label in zip(logits.argmax(1), samples.labels, strict=True)]))


@KINDS
def test_it_learns_from_own_samples_and_from_noisy_sums(recipe: Recipe) -> None:
    privacy = replace(PRIVACY, noise=0.5, steps=150, clip=1.0, lr=1.0)
    samples = make_samples(LABELS, dim=16)
    assert accuracy(train(samples, recipe, privacy=privacy), samples) > 0.9


@KINDS
def test_private_samples_reach_the_adapters(recipe: Recipe) -> None:
    samples = make_samples(LABELS)
    assert train(samples, recipe).digest != train(changed(samples, 0), recipe).digest


@KINDS
def test_the_order_of_samples_does_not_matter(recipe: Recipe) -> None:
    samples = make_samples(LABELS, ragged=True)
    shuffled = samples.take(np.random.default_rng(3).permutation(len(samples)))
    assert train(samples, recipe).digest == train(shuffled, recipe).digest


@KINDS
def test_an_owner_hears_of_anothers_own_samples_through_noisy_sums_only(recipe: Recipe) -> None:
    """With the sample masked from everyone but its owner, the others must not change by a bit.

    Clipping jointly over several owners' adapters, one permutation for all own samples, or a common optimiser's
    state would each break this.
    """
    samples = make_samples(LABELS)
    direct, private = by_class(samples.labels, CLASSES)
    private[:, 0] = False  # sample 0, of class a, is its own adapter's secret
    privacy = replace(PRIVACY, clip=1e-2)  # so that everything is clipped

    def others(samples: Samples) -> tuple[bytes, bytes]:
        found = train_private_group("g", samples, CLASSES, direct, private, recipe, 0, privacy, SeededNoise(1))
        return found.first[1:].tobytes(), found.second[1:].tobytes()

    assert others(samples) == others(changed(samples, 0, factor=50.0))


@KINDS
@pytest.mark.parametrize("owners", [None, ["s", "s", "t"]])
def test_one_private_sample_moves_one_step_by_at_most_the_clip(recipe: Recipe, owners: list[str] | None) -> None:
    samples = make_samples(LABELS)
    direct, private = by_class(samples.labels, CLASSES)
    if owners:
        direct[:2] = direct[:2].any(axis=0)
        private = ~direct
    privacy = replace(PRIVACY, steps=1, lr=1.0, normaliser=1.0, clip=0.3)
    for row in range(0, len(samples), 5):
        with_it, without = (
            train_private_group("g", samples, CLASSES, direct, private, recipe, 0, privacy, Picks(rows), owners)
            for rows in ([1, 3, row], [each for each in (1, 3) if each != row])
        )
        moved = np.concatenate([np.ravel(with_it.first - without.first), np.ravel(with_it.second - without.second)])
        # an untrained adapter's gradients are far above the clip, so an owner's whole share is used; the own
        # class's adapter is not moved. float32 parameters round at 1e-7
        readers = {owner for owner, used in zip(owners or CLASSES, private[:, row], strict=True) if used}
        assert np.linalg.norm(moved) <= 0.3 + 1e-6
        if row not in (1, 3):
            np.testing.assert_allclose(np.linalg.norm(moved), 0.3 * (len(readers) / 2) ** 0.5, rtol=2e-3)


class Counting(SeededNoise):
    """Remembers what was asked of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[tuple[str, float, int]] = []

    def chosen(self, rate: float, count: int) -> np.ndarray:
        self.asked.append(("chosen", rate, count))
        return super().chosen(rate, count)

    def normal(self, count: int) -> np.ndarray:
        self.asked.append(("normal", 0.0, count))
        return super().normal(count)


@pytest.mark.parametrize("count", [2, 5, 8])
def test_rate_steps_and_noise_do_not_depend_on_how_many_samples_there_are(count: int) -> None:
    source = Counting(0)
    samples = make_samples([label for label in CLASSES for _ in range(count)])
    train(samples, noise=source)
    assert source.asked == [("chosen", 0.4, 3 * count), ("normal", 0.0, 2 * 3 * 8)] * PRIVACY.steps


def test_noise_comes_even_when_nobody_is_chosen() -> None:
    samples = make_samples(LABELS)
    nobody = replace(PRIVACY, rate=1e-12)
    assert train(samples, privacy=nobody, noise=SeededNoise(1)).digest != train(samples, noise=Picks([])).digest


def test_own_samples_alone_are_counted() -> None:
    samples = make_samples(LABELS)
    direct, private = (np.zeros((1, len(samples)), bool) for _ in range(2))
    direct[:, :8], private[:, 8:] = True, True
    found = train_private_group("g", samples, ("a",), direct, private, INCA, 0, PRIVACY, SeededNoise(0))
    assert found.samples == 8


@pytest.mark.parametrize("ragged", [False, True])
def test_many_owners_at_once_learn_as_one_by_one(ragged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = tuple("abcdef")
    samples = make_samples([label for label in classes for _ in range(4)], ragged=ragged)
    direct, private = by_class(samples.labels, classes)
    privacy = replace(PRIVACY, readers=5)

    def once() -> np.ndarray:
        return train_private_group("g", samples, classes, direct, private, INCA, 0, privacy, NoNoise(0)).first

    together = once()
    monkeypatch.setattr(learners, "_alike", lambda *_: False)
    np.testing.assert_allclose(together, once(), atol=1e-4)  # batched products add in another order


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"recipe": replace(INCA, loss="ce")}, ConfigError, "bce"),
        ({"private": np.zeros((3, 24), bool)}, InputError, "empty neighbourhood"),
        ({"direct": np.zeros((3, 24), bool)}, InputError, "empty neighbourhood"),
        ({"private": np.ones((3, 24), bool)}, InputError, "both directly and privately"),
        ({"direct": np.zeros((3, 5), bool)}, InputError, "must be bool"),
        ({"owners": ["s"]}, InputError, "owner"),
        ({"owners": ["s", "s", "t"]}, InputError, "same samples"),
        ({"privacy": replace(PRIVACY, readers=1)}, ConfigError, "readers"),
    ],
)
def test_what_cannot_keep_the_promise_is_refused(change: dict, error: type, words: str) -> None:
    samples = make_samples(LABELS)
    direct, private = by_class(samples.labels, CLASSES)
    given = {
        "name": "g",
        "samples": samples,
        "classes": CLASSES,
        "direct": direct,
        "private": private,
        "recipe": INCA,
        "seed": 0,
        "privacy": PRIVACY,
        "noise": SeededNoise(0),
    }
    with pytest.raises(error, match=words):
        train_private_group(**(given | change))


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": 0.0},
        {"rate": 0.0},
        {"rate": 1.5},
        {"steps": 0},
        {"clip": 0.0},
        {"lr": float("nan")},
        {"normaliser": -1.0},
        {"direct_batch": 0},
        {"readers": 0},
    ],
)
def test_a_private_recipe_that_makes_no_sense_is_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match=r"must be"):
        PrivateRecipe(**({"noise": 1.0} | wrong))


def test_a_private_recipe_survives_json() -> None:
    assert PrivateRecipe.from_json(PRIVACY.to_json()) == PRIVACY
    with pytest.raises(ConfigError, match="sigma"):
        PrivateRecipe.from_json({"sigma": 1.0})


def test_accounting_needs_no_torch_and_training_no_accountant_and_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["dp_accounting"] = None
import shardgraph.learn.private.accounting.closeness, shardgraph.learn.private.private_recipe
print("torch" in sys.modules)
import shardgraph.learn.private.training.private_group, shardgraph.learn.private.accounting.closeness
from shardgraph.learn.private.accounting.mechanism import Mechanism, epsilon
try:
    epsilon([Mechanism(0.1, 1.0, 10)], 1e-5)
except Exception as e:
    print(type(e).__name__, e)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("False\nConfigError") and "shardgraph[dp]" in out
