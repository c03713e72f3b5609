"""Runs write records, find them again, and agree with the model that a workspace would serve."""

import json

import numpy as np
import pytest

from experiments import ablation, others, page, runs
from experiments.cache import Data, demo
from experiments.finished import APART
from experiments.recordfile import RecordFile
from experiments.records import Records
from experiments.rivals import RIVALS
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe
from tests.experiments import made_up

RECIPE = Recipe(epochs=2, expansion=2)


@pytest.fixture(scope="module")
def setup() -> runs.Setup:
    whole = demo()
    data = Data(whole.name, whole.backbone, whole.train.take(range(200)), whole.test.take(range(90)))
    return runs.Setup(data, "cpu", RECIPE)


@pytest.mark.parametrize("name", ["SISA", "ProtoSISA", "SAFE", "NoprotoSAFE", "Ours"])
def test_accuracy_from_shared_logits_equals_that_of_the_whole_model(name, setup):
    rival = RIVALS[name]
    found = {r["rival"]: r["accuracy"] for r in runs.graphs(setup, 1, runs.methods_at((4,)))}
    predicted = rival.fit(setup.data.train, runs.splits(setup.data)[4], RECIPE, 1).predict(setup.data.test)
    right = np.mean([a == b for a, b in zip(predicted, setup.data.test.labels, strict=True)])
    assert found[name] == pytest.approx(100 * right)


@pytest.mark.parametrize("name", ["Prototypes", "Second order"])
def test_what_needs_no_graph_equals_the_whole_model_too(name, setup):
    found = {r["rival"]: r["accuracy"] for r in runs.alone(setup)}
    predicted = RIVALS[name].fit(setup.data.train, (1, 1), RECIPE, 0).predict(setup.data.test)
    right = np.mean([a == b for a, b in zip(predicted, setup.data.test.labels, strict=True)])
    assert found[name] == pytest.approx(100 * right)


def test_instant_forgetting_starts_from_the_whole_model(setup):
    records = [r for r in runs.instant(setup, 0, 4, runs.INSTANT, steps=2) if r["gone"] == 0]
    whole = {r["rival"]: r["accuracy"] for r in runs.graphs(setup, 0, runs.methods_at((4,)))}
    assert {r["rival"]: r["accuracy"] for r in records}.items() <= whole.items()


def test_what_left_is_subtracted_once(setup):
    shards = setup.train((8, 2), 0).shards
    *_, (left, sums) = runs.leaving(setup, shards, 0, steps=5)
    assert 0 < len(left) < len(shards) / 3
    expected = total(left.values(), second_order=True, expansion=RECIPE.expansion)
    assert sums["second"].to_bytes() == expected.to_bytes()
    assert sums["first"].to_bytes() == total(left.values()).to_bytes()


def test_prototypes_answer_alone_where_no_adapter_is_left():
    small = runs.Setup(made_up.data(10), "cpu", RECIPE)
    found = list(runs.instant(small, 0, 64, runs.INSTANT, steps=4))
    assert {r["rival"] for r in found} == set(runs.INSTANT) and len(found) == 16
    alone = {r["rival"]: r["accuracy"] for r in runs.alone(small)}
    whole = {r["rival"]: r.get("accuracy") for r in runs.graphs(small, 0, runs.methods_at((64,)))}
    assert whole["Ours"] == alone["Second order"] and whole["SAFE"] == alone["Prototypes"]
    assert len(list(others.others(small.data, 0, "cpu", RECIPE))) == 2


def test_a_run_that_was_stopped_keeps_what_it_had_and_goes_on(tmp_path, monkeypatch):
    data, path, real, calls = made_up.data(16), tmp_path / "made_up--toy.jsonl", runs.mean_logits, []

    def stopped(*given):
        calls.append(given)
        if len(calls) in (2, 5):  # in the second graph, and when all graphs and one study's first cut are done
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(runs, "mean_logits", stopped)
    arguments = ("cpu", (1, 2), False, ("fine",), (0,))
    counts = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            runs.run(data, RecordFile(path), *arguments)
        counts.append(len(RecordFile(path).records))
    assert counts == [4, 12]
    runs.run(data, RecordFile(path), *arguments)
    found = RecordFile(path).records
    fresh = RecordFile(tmp_path / "fresh.jsonl")
    runs.run(data, fresh, *arguments)
    assert sorted(map(_told, found)) == sorted(map(_told, fresh.records))


def _told(record):
    return json.dumps({key: value for key, value in record.items() if key != "train_seconds"}, sort_keys=True)


def test_committed_records_make_every_table_and_figure(tmp_path):
    records = Records.load()
    there = [name for name in page.EXPERIMENTS if name not in APART or _has(records, name)]
    for shown in (page.show(name, records) for name in there):
        written = shown.write(tmp_path)
        assert {path.suffix for path in written} == {".json", ".csv", ".png", ".svg"}
        assert all(len(row) == len(table.columns) for table in shown.tables for row in table.rows)
        assert json.loads(written[0].read_text())["tables"]


def _has(records, study):
    return any(any(records.of(name, study=study)) for name in records.sets)


def test_one_change_at_a_time_starts_from_the_default(setup, monkeypatch):
    monkeypatch.setattr(ablation, "ADAPTERS", {"default": {}, "lr 0.03": {"lr": 0.03}, "heads of 4": {"heads": 4}})
    monkeypatch.setattr(ablation, "PROTOTYPES", {"expansion 4": {"expansion": 4}, "mixing 1": {"mixing": 1.0}})
    monkeypatch.setattr(ablation, "PRIORS", {"prior 0": 0.0})
    monkeypatch.setattr(ablation, "LEVELS", (1, 4))
    found = {record["change"]: record for record in ablation.ablation(setup.data, "cpu", base=RECIPE)}
    done = set(found) - {"lr 0.03", "mixing 1"}
    again = {record["change"]: record for record in ablation.ablation(setup.data, "cpu", base=RECIPE, done=done)}
    assert again.items() <= found.items() and {"lr 0.03", "mixing 1"} <= again.keys()
    assert not {"heads of 4", ablation.FIRST} & again.keys()
    assert list(found) == ["default", "lr 0.03", "heads of 4", "expansion 4", "mixing 1", "prior 0", ablation.FIRST]
    kept = found["default"]
    assert all(found[change]["alone"] == kept["alone"] for change in ("expansion 4", "mixing 1"))
    assert all(found[change]["alone"] != kept["alone"] for change in ("lr 0.03", ablation.FIRST))
    assert len(set(found["mixing 1"]["mixed"].values())) == 1  # prototypes alone know no shards
    shown = ablation.show(Records({"digits--pixels": [{"study": "ablation", **record} for record in found.values()]}))
    assert shown.tables[0].rows[0][1] == f"{kept['alone']['1']:.1f}"
