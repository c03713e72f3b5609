"""The figure of private edges on a tiny problem: every model is trained and counted, in this process or in others."""

import json

import numpy as np
import pytest

from experiments.private import KS, NOISE, SHARDS, figure, show, tasks
from experiments.records import Records
from shardgraph.learn.private.accounting.budget import PAPER, largest_epsilon
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.storage.samples import from_arrays

QUICK = PrivateRecipe(steps=1, direct_steps=2, rank=3)
NOISES = dict.fromkeys(KS, 0.01)


def made_up(count: int, seed: int):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    return from_arrays(
        np.eye(3, 6)[labels] + 0.1 * rng.standard_normal((count, 6)), labels, [f"{seed}-{i}" for i in range(count)]
    )


def test_every_model_is_in_the_figure_with_its_seeds():
    rows = figure(made_up(96, 0), made_up(12, 1), NOISES, QUICK, workers=1)
    found = {(row["kind"], row["k"]): row for row in rows}
    assert set(found) == {("exact", 0), ("own-only", 0), ("SISA", 0), *(("private", k) for k in KS)}
    assert all(row["seeds"] == 3 and 0 <= row["adapters"]["mean"] <= 1 for row in rows)
    assert found["exact", 0]["with_prototypes"]["mean"] == 1
    shown = show(Records({"nothing--real": [{"study": "private", **row} for row in rows]}))
    assert len(shown.tables[0].rows) == len(rows) and shown.tables[1].rows[1] == ["2", 12, 13, 14, 15]


def test_the_noise_beside_the_experiment_is_that_of_the_recipe():
    known = json.loads(NOISE.read_text())
    assert (known["rate"], known["steps"]) == (PrivateRecipe().rate, PrivateRecipe().steps)
    assert known["readers"] == SHARDS - 1 and len(list(tasks())) == 3 * (1 + SHARDS * (len(KS) + 2))
    for row in known["rows"]:
        assert row["epsilon"] == pytest.approx(largest_epsilon(row["k"], PAPER, row["delta"]))
        # without sampling all steps of all readers are one Gaussian, with the epsilon of Balle and Wang
        from tests.learn.private.accounting.test_mechanism import gaussian_epsilon

        exact = gaussian_epsilon((known["readers"] * known["steps"]) ** 0.5 / row["noise"], row["delta"])
        assert 0.98 * row["epsilon"] < exact <= row["epsilon"]
