"""The ledger's epsilon against an attack: many trainings with and without a sample that shouts.

The canary's gradient is more than ten times the clip. The attacker knows everything else and sees the final
adapters. His 99% lower bound on epsilon must stay below the ledger's; with clipping or noise switched off (here, in the
test: the product has no such switch) it must exceed it, or the audit could not have failed. An (epsilon, delta) curve
holds at every delta; it is attacked at 0.05, where some thousand trainings can see something.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard

from shardgraph.errors import InputError
from shardgraph.learn.private.accounting.closeness import sample_loss
from shardgraph.learn.private.accounting.mechanism import calibrate
from shardgraph.learn.private.accounting.releases import Releases
from shardgraph.learn.private.audit import epsilon_at_least
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training import private_group as private_train
from shardgraph.learn.private.training.learners import learner
from shardgraph.learn.private.training.masks import checked_masks
from shardgraph.learn.private.training.noise import NoiseSource
from shardgraph.learn.private.training.secure import SecureNoise
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples
from tests.learn.private.problems import NoNoise, by_class

CLASSES, DELTA, DIM = ("a", "b"), 0.05, 16
CANARY = 0  # the first sample, of class a: private to b's adapter


@dataclass(frozen=True)
class Attack:
    """One configuration under attack."""

    recipe: Recipe
    privacy: PrivateRecipe
    samples: Samples

    @property
    def direction(self) -> np.ndarray:
        """Where the canary pushes b's adapter at the start; checked to be more than ten clips long."""
        direct, private = by_class(self.samples.labels, CLASSES)
        masks = checked_masks(direct, private, CLASSES, CLASSES, len(self.samples), 1)
        model = learner(self.samples, CLASSES, masks, self.recipe, 0)
        gradients = model.private(model.start("g", CLASSES, 0), torch.tensor([CANARY]))
        assert gradients.squared[0, 1].sqrt() > 10 * self.privacy.clip
        return gradients.weighted(torch.ones(1, 2))[:, 1].numpy()

    def scores(self, trainings: int, canary: bool, noise: NoiseSource) -> np.ndarray:
        """How far b's adapter went where the canary pushes, in each of some trainings."""
        samples = self.samples if canary else self.samples.take(range(1, len(self.samples)))
        direct, private = by_class(samples.labels, CLASSES)
        direction, found = self.direction, []
        for _ in range(trainings):
            adapters = private_train.train_private_group(
                "g", samples, CLASSES, direct, private, self.recipe, 0, self.privacy, noise
            )
            parts = (adapters.first[1], adapters.second[1])
            learned = np.stack(parts) if adapters.kind == "inca" else np.append(*parts)[None]
            found.append(-float((learned * direction).sum()))
        return np.array(found)

    def bound(self, trainings: int, noise: NoiseSource) -> float:
        with_it, without = (self.scores(trainings, canary, noise) for canary in (True, False))
        return epsilon_at_least(with_it, without, DELTA)

    @property
    def promised(self) -> float:
        return sample_loss(Releases().built("g", self.privacy.mechanism), ["g"], DELTA)[0]


def quiet_neighbours() -> Samples:
    """The canary, and others whose gradients are orthogonal to its own, so that they do not hide it.

    Rows of a Hadamard matrix pass LayerNorm unchanged. The linear adapters' constant input 1 needs a product of -1.
    """
    first, second, third = hadamard(DIM)[1:4].astype(np.float32)
    slant = -1 / DIM
    beside = slant * first + (1 - slant**2) ** 0.5 * second
    tokens = np.stack([first, second, third, third])
    features = np.stack([first, beside, third, third])
    return Samples(("0", "1", "2", "3"), ("a", "a", "b", "b"), tokens, np.arange(5), features)


def attack(adapter: str, rate: float, steps: int, epsilon: float) -> Attack:
    noise = calibrate(rate, steps, epsilon, DELTA)
    privacy = PrivateRecipe(
        noise, rate, steps, clip=0.02, normaliser=1.0, lr=1.0, direct_batch=1, direct_steps=1, rank=0
    )
    return Attack(Recipe(loss="bce", adapter=adapter, heads=1, lr=1e-4), privacy, quiet_neighbours())


ONE, MANY, LINEAR = ("inca", 1.0, 1, 1.5), ("inca", 0.5, 8, 1.5), ("linear", 0.75, 4, 1.5)
CASES = pytest.mark.parametrize("case", [ONE, LINEAR], ids=["inca", "linear"])


@CASES
def test_the_audit_stays_below_the_ledger(case: tuple) -> None:
    found = attack(*case)
    assert found.bound(300, SecureNoise()) <= found.promised


@CASES
def test_the_audit_fails_without_clipping(case: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_train, "clip_weights", lambda squared, owners, clip: torch.ones_like(squared))
    found = attack(*case)
    assert found.bound(120, SecureNoise()) > found.promised


@CASES
def test_the_audit_fails_without_noise(case: tuple) -> None:
    found = attack(*case)
    assert found.bound(120, NoNoise(0)) > found.promised


@pytest.mark.slow
@pytest.mark.parametrize("case", [ONE, MANY, LINEAR], ids=["inca", "inca-many-steps", "linear"])
def test_the_long_audit_stays_below_the_ledger_and_notices_half_the_noise(case: tuple) -> None:
    found = attack(*case)
    assert found.bound(2000, SecureNoise()) <= found.promised
    if case == ONE:  # seeing the last step only, the attack is optimal where there is but one
        quiet = replace(found, privacy=replace(found.privacy, noise=found.privacy.noise / 2))
        assert quiet.bound(2000, SecureNoise()) > found.promised


def test_equal_distributions_give_no_bound_and_different_ones_the_right_one() -> None:
    rng = np.random.default_rng(0)
    same = epsilon_at_least(rng.standard_normal(2000), rng.standard_normal(2000), 1e-5)
    assert same < 0.1
    # randomised response with epsilon 1: 99% bounds of many audits are below it but for one or two
    rate = np.e / (1 + np.e)
    bounds = [epsilon_at_least(rng.random(4000) < rate, rng.random(4000) < 1 - rate, 0.0) for _ in range(50)]
    assert sum(bound > 1 for bound in bounds) <= 3
    assert np.median(bounds) > 0.8


def test_an_audit_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least 20"):
        epsilon_at_least(np.zeros(5), np.zeros(5), 0.0)
    with pytest.raises(InputError, match="finite"):
        epsilon_at_least(np.full(50, np.nan), np.zeros(50), 0.0)
