"""`train`, `evaluate` and `predict`."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.conftest import misused, refused, run, saved


def test_other_topologies_and_recipes(untrained: Path, tmp_path: Path):
    own = tmp_path / "graph.json"
    own.write_text(json.dumps({"shards": ["ann", "bob", "web"], "edges": [["ann", "web"], ["bob", "web"]]}))
    for i, flags in enumerate(
        [
            ("--topology", own, "--recipe", "linear"),
            ("--topology", "by-source", "--safe", "web", "--loss", "bce", "--method", "safe"),
            ("--topology", "random", "--shards", 3, "--degree", 1, "--recipe", "paper"),
            ("--topology", "by-source-bilevel", "--coarse", 2, "--no-prototypes"),
            ("--coarse", 2, "--assignment", "balanced", "--projection", "orthogonal", "--heads", 2),
        ]
    ):
        ws = Path(shutil.copytree(untrained, tmp_path / f"ws{i}"))
        trained = run("train", ws, *flags, "--epochs", 1, "--batch", 8, "--workers", 1, "--json")
        assert trained.code == 0, trained.out
        assert trained.json["groups"] >= 2
        assert run("train", ws, *flags, "--epochs", 1, "--batch", 8, "--json").json == trained.json


def test_a_rebuilt_model_is_the_same(ws: Path):
    before = run("status", ws, "--json").json["model_digest"]
    next((ws / "models").rglob("*.safetensors")).write_bytes(b"not adapters")
    damaged = run("evaluate", ws)
    assert damaged.code == 1 and "train --rebuild" in damaged.err
    assert run("train", ws, "--rebuild", "--json").json["model_digest"] == before


def test_a_new_secret_drops_the_marks_of_what_was_forgotten(ws: Path):
    run("forget", ws, "--yes", "--sample", "s-001")
    before = (ws / "secret.key").read_bytes()
    assert run("rekey", ws, "--yes").code == 0 and (ws / "secret.key").read_bytes() != before
    assert run("verify", ws, "--full").code == 0
    assert run("forget", ws, "--yes", "--sample", "s-001").code == 1


def test_predictions_on_screen_in_json_and_in_files(ws: Path, tmp_path: Path, data: Path):
    answer = run("predict", ws, data / "new.npz", "--top-k", 2, "--json").json
    assert [p["id"] for p in answer["predictions"]] == ["n1", "n2", "n3"]
    assert all(len(p["top"]) == 2 and p["label"] == p["top"][0]["label"] for p in answer["predictions"])
    assert "n3" in run("predict", ws, data / "new.npz").out
    table, listed = tmp_path / "p.csv", tmp_path / "p.json"
    assert run("predict", ws, data / "new.npz", "--out", table, "--json").json["samples"] == 3
    assert run("predict", ws, data / "new.npz", "--out", listed).code == 0
    rows = list(csv.DictReader(table.open()))
    assert [row["label"] for row in rows] == [p["label"] for p in json.loads(listed.read_text())]


def test_held_out_samples_of_classes_that_the_model_does_not_have_are_counted(ws: Path, tmp_path: Path):
    assert run("evaluate", ws, "--json").json["unknown"] == 0 and "does not have" not in run("evaluate", ws).out
    stranger = saved(tmp_path, labels=np.array(["ant", "yak", "zebu"]), split=np.array(["train", "test", "test"]))
    assert run("add", ws, stranger).code == 0
    found = run("evaluate", ws, "--json").json
    assert (found["unknown"], found["samples"]) == (2, 14)
    assert "classes that the model does not have    2" in run("evaluate", ws).out


def test_a_place_to_write_to_that_is_not_there_is_found_before_the_work(ws: Path, tmp_path: Path):
    place = tmp_path / "nowhere"
    assert "nowhere does not exist" in refused(ws, "predict", ws, saved(tmp_path), "--out", place / "p.csv").err
    assert "nowhere does not exist" in refused(ws, "report", ws, "--out", place / "r.html").err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(untrained: Path, tmp_path: Path):
    assert "no GPU" in refused(untrained, "train", untrained, "--coarse", 2, "--device", "cuda").err
    made = run("init", tmp_path / "new", "--backbone", "efficientnet-lite0", "--device", "cuda")
    assert made.code == 1 and "no GPU" in made.err and "choose cpu" in made.err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_training_and_forgetting_on_a_cluster_give_the_model_of_one_process(untrained: Path, tmp_path: Path):
    pytest.importorskip("ray")
    one, other = untrained, Path(shutil.copytree(untrained, tmp_path / "other"))
    for words in (
        ("train", "WS", "--coarse", 6, "--fine", 1, "--epochs", 2),
        ("forget", "WS", "--sample", "s-007", "--yes"),
    ):
        here, there = (
            run(*(root if word == "WS" else word for word in words), "--json", "--executor", kind).json
            for root, kind in ((one, "serial"), (other, "ray"))
        )
        assert here["model_digest"] == there["model_digest"]


def test_an_unknown_executor_is_named(ws: Path):
    shown = misused(ws, "repair", ws, "--executor", "slurm").err
    assert "'slurm'" in shown and "'processes'" in shown


def test_evaluate_tells_the_accuracy_by_class_and_their_mean(ws: Path, data: Path, tmp_path: Path):
    whole = run("evaluate", ws, "--json").json
    classes = {one["label"]: one for one in whole["classes"]}
    assert list(classes) == ["ant", "bee", "cat", "dog"]
    assert sum(one["samples"] for one in classes.values()) == whole["samples"]
    assert sum(one["correct"] for one in classes.values()) == whole["correct"]
    assert all(one["accuracy"] == one["correct"] / one["samples"] for one in classes.values())
    assert whole["macro_accuracy"] == pytest.approx(sum(one["accuracy"] for one in classes.values()) / 4)
    predicted = run("predict", ws, data / "data.npz", "--json").json["predictions"]
    with np.load(data / "data.npz") as file:
        held = [
            (str(i), str(label))
            for i, label, split in zip(file["ids"], file["labels"], file["split"], strict=True)
            if split == "test"
        ]
    best = {each["id"]: each["label"] for each in predicted}
    assert {name: one["correct"] for name, one in classes.items()} == {
        name: sum(best[i] == label for i, label in held if label == name) for name in classes
    }
    shown = run("evaluate", ws).out
    assert "macro accuracy" in shown and "by class" in shown and "bee" in shown


def test_a_class_that_the_model_does_not_have_counts_as_wrong(ws: Path, tmp_path: Path):
    run("add", ws, saved(tmp_path, labels=np.array(["elk"] * 3), split=np.array(["test"] * 3)))
    found = run("evaluate", ws, "--json").json
    elk = next(one for one in found["classes"] if one["label"] == "elk")
    assert elk == {"label": "elk", "accuracy": 0.0, "samples": 3, "correct": 0} and found["unknown"] == 3
    assert found["macro_accuracy"] == pytest.approx(sum(one["accuracy"] for one in found["classes"]) / 5)
