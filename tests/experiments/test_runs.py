"""Runs write records, find them again, and agree with the model that a workspace would serve."""

import json

import numpy as np
import pytest

from experiments import ablation, page, runs
from experiments.cache import Data, demo
from experiments.records import Records
from experiments.rivals import RIVALS
from shardgraph.learn.recipe import Recipe

RECIPE = Recipe(epochs=2, expansion=2)


@pytest.fixture(scope="module")
def bench() -> runs.Bench:
    whole = demo()
    data = Data(whole.name, whole.backbone, whole.train.take(range(200)), whole.test.take(range(90)))
    return runs.Bench(data, "cpu", RECIPE)


@pytest.mark.parametrize("name", ["SISA", "ProtoSISA", "SAFE", "NoprotoSAFE", "Ours"])
def test_accuracy_from_shared_logits_equals_that_of_the_whole_model(name, bench):
    rival = RIVALS[name]
    found = {r["rival"]: r["accuracy"] for r in runs.graphs(bench, 1, runs.asked((4,)))}
    predicted = rival.fit(bench.data.train, runs.splits(bench.data)[4], RECIPE, 1).predict(bench.data.test)
    right = np.mean([a == b for a, b in zip(predicted, bench.data.test.labels, strict=True)])
    assert found[name] == pytest.approx(100 * right)


@pytest.mark.parametrize("name", ["Prototypes", "Second order"])
def test_what_needs_no_graph_equals_the_whole_model_too(name, bench):
    found = {r["rival"]: r["accuracy"] for r in runs.alone(bench)}
    predicted = RIVALS[name].fit(bench.data.train, (1, 1), RECIPE, 0).predict(bench.data.test)
    right = np.mean([a == b for a, b in zip(predicted, bench.data.test.labels, strict=True)])
    assert found[name] == pytest.approx(100 * right)


def test_a_record_is_found_again_after_reopening(tmp_path):
    path = tmp_path / "book.jsonl"
    runs.Book(path).add([{"rival": "SAFE", "n": 4, "seed": 0}])
    assert runs.Book(path).has(rival="SAFE", n=4) and not runs.Book(path).has(rival="SAFE", n=8)


def test_instant_forgetting_starts_from_the_whole_model(bench):
    records = [r for r in runs.instant(bench, 0, 4, runs.INSTANT, steps=2) if r["gone"] == 0]
    whole = {r["rival"]: r["accuracy"] for r in runs.graphs(bench, 0, runs.asked((4,)))}
    assert {r["rival"]: r["accuracy"] for r in records}.items() <= whole.items()


def test_committed_records_make_every_table_and_figure(tmp_path):
    for shown in page.show(page.EXPERIMENTS, Records.load()):
        written = shown.write(tmp_path)
        assert {path.suffix for path in written} == {".json", ".csv", ".png", ".svg"}
        assert all(len(row) == len(table.columns) for table in shown.tables for row in table.rows)
        assert json.loads(written[0].read_text())["tables"]


def test_one_change_at_a_time_starts_from_the_default(bench, monkeypatch):
    monkeypatch.setattr(ablation, "ADAPTERS", {"default": {}, "lr 0.03": {"lr": 0.03}, "heads of 4": {"heads": 4}})
    monkeypatch.setattr(ablation, "PROTOTYPES", {"expansion 4": {"expansion": 4}, "mixing 1": {"mixing": 1.0}})
    monkeypatch.setattr(ablation, "PRIORS", {"prior 0": 0.0})
    monkeypatch.setattr(ablation, "LEVELS", (1, 4))
    found = {record["change"]: record for record in ablation.ablation(bench.data, "cpu", base=RECIPE)}
    assert list(found) == ["default", "lr 0.03", "heads of 4", "expansion 4", "mixing 1", "prior 0", ablation.FIRST]
    kept = found["default"]
    assert all(found[change]["alone"] == kept["alone"] for change in ("expansion 4", "mixing 1"))
    assert all(found[change]["alone"] != kept["alone"] for change in ("lr 0.03", ablation.FIRST))
    assert len(set(found["mixing 1"]["mixed"].values())) == 1  # prototypes alone know no shards
    shown = ablation.show(Records({"digits--pixels": [{"study": "ablation", **record} for record in found.values()]}))
    assert shown.tables[0].rows[0][1] == f"{kept['alone']['1']:.1f}"
