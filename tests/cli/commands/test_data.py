"""`init`, `add` and `source`."""

import json
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import inventory
from tests.cli.conftest import COUNT, TRAIN, arrays, refused, run, saved


def test_adding_later_is_as_if_it_had_always_been_there(ws: Path, tmp_path: Path, data: Path):
    added = run("add", ws, data / "more.npz", "--json").json
    assert (added["added"], added["waiting"]) == (10, 0)
    fresh = tmp_path / "fresh"
    run("init", fresh, "--seed", 1)
    run("add", fresh, data / "more.npz", data / "data.npz")
    assert run("train", fresh, *TRAIN, "--json").json["model_digest"] == added["model_digest"]


def test_added_samples_may_wait(ws: Path, data: Path):
    before = run("status", ws, "--json").json["model_digest"]
    added = run("add", ws, data / "more.npz", "--wait", "--json").json
    assert (added["waiting"], added["model_digest"]) == (10, before)
    assert run("train", ws, "--json").json["model_digest"] != before


def test_init_where_something_is(ws: Path, tmp_path: Path):
    assert "ws" in refused(ws, "init", ws).err
    assert run("init", tmp_path / "new", "--classes", "@missing").code == 1
    assert not (tmp_path / "new").exists()


def test_duplicate_ids(ws: Path, tmp_path: Path, data: Path):
    assert "'s-000'" in refused(ws, "add", ws, data / "data.npz").err
    twice = saved(tmp_path, ids=np.array(["a", "b", "a"]))
    assert "'a'" in refused(ws, "add", ws, twice).err


def test_a_forgotten_sample_comes_back_only_when_allowed(ws: Path, tmp_path: Path):
    assert run("forget", ws, "--yes", "--sample", "s-001").code == 0
    again = saved(tmp_path, ids=np.array(["a", "b", "s-001"]))
    assert "'s-001'" in refused(ws, "add", ws, again).err
    assert run("add", ws, again, "--allow-return").code == 0


def test_files_that_were_added_before_a_bad_one_are_named(ws: Path, tmp_path: Path, data: Path):
    bad, more = saved(tmp_path, labels=None), data / "more.npz"
    done = run("add", ws, more, bad, "--json")
    assert done.code == 1 and done.json["kind"] == "InputError" and "'labels'" in done.json["error"]
    assert f"10 samples of {more} were added and wait in the inbox; add {bad} again" in done.json["error"]
    assert run("status", ws, "--json").json["waiting"] == 10
    assert run("add", ws, saved(tmp_path)).code == 0
    assert run("status", ws, "--json").json["waiting"] == 0


def test_a_sample_that_no_shard_takes_is_refused_when_it_comes(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1)
    run("add", ws, data / "data.npz")
    run("train", ws, "--topology", "by-source", "--epochs", 1)
    assert "'s-101'" in refused(ws, "add", ws, saved(tmp_path, sources=np.array(["ann", "", "bob"]))).err


def test_too_little_disk(ws: Path, data: Path, monkeypatch: pytest.MonkeyPatch):
    full = namedtuple("full", "total used free")(1, 1, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    assert "MB free" in refused(ws, "add", ws, data / "more.npz").err
    assert "MB free" in refused(ws, "forget", ws, "--yes", "--sample", "s-001").err


def test_new_samples_of_a_file_that_was_added_before_come_in(ws: Path, data: Path, tmp_path: Path):
    both = {name: np.concatenate([arrays()[name], arrays(10, start=COUNT)[name]]) for name in arrays()}
    np.savez(tmp_path / "both.npz", **both)
    failed = run("add", ws, tmp_path / "both.npz")
    assert failed.code == 1 and "already here" in failed.err and "--only-new" in failed.err
    added = run("add", ws, tmp_path / "both.npz", "--only-new", "--json").json
    assert (added["added"], added["here_already"]) == (10, COUNT)
    again = run("add", ws, tmp_path / "both.npz", "--only-new")
    assert again.code == 0 and f"already present    {COUNT + 10}" in again.out
    assert run("add", ws, data / "data.npz", data / "more.npz", "--only-new", "--json").json["here_already"] == 70


@pytest.mark.parametrize("column", ["labels", "sources", "subjects", "split"])
def test_what_is_here_with_another_word_is_refused(ws: Path, tmp_path: Path, column: str):
    before = run("status", ws, "--json").json
    changed = arrays()
    changed[column][7] = {"labels": "ant", "sources": "web", "subjects": "p9", "split": "test"}[column]
    np.savez(tmp_path / "changed.npz", **changed)
    failed = run("add", ws, tmp_path / "changed.npz", "--only-new", "--json")
    assert failed.code == 1 and failed.json["ids"] == ["s-007"]
    assert "another label, source, subject or split" in failed.json["error"]
    assert run("status", ws, "--json").json["samples"] == before["samples"]


def test_what_was_forgotten_does_not_come_back_as_new(ws: Path, data: Path):
    run("forget", ws, "--yes", "--sample", "s-001")
    failed = run("add", ws, data / "data.npz", "--only-new", "--json")
    assert failed.code == 1 and failed.json["ids"] == ["s-001"] and "forgotten before" in failed.json["error"]


def test_a_source_is_described_and_shown(ws: Path):
    told = run("source", ws, "ann", "--owner", "Ann A.", "--terms", "CC BY 4.0", "--rate", 0.1, "--json").json
    assert told == {"source": "ann", "samples": 20, "owner": "Ann A.", "terms": "CC BY 4.0", "rate": 0.1}
    assert run("source", ws, "ann", "--rate", 0.2, "--json").json["owner"] == "Ann A."
    known = run("status", ws, "--json").json["sources"]
    assert known["ann"]["rate"] == 0.2 and known["bob"] == {"samples": 20, "owner": "", "terms": "", "rate": None}
    assert "CC BY 4.0" in run("status", ws).out


def test_a_plan_weighs_what_it_expects_by_the_rates(ws: Path):
    before = run("plan", ws, "--sample", "s-001", "--json").json["expected_cost"]
    assert not before["by_rates"] and 0 < before["share"] <= 1
    run("source", ws, "ann", "--rate", 1)
    assert run("plan", ws, "--sample", "s-001", "--json").json["expected_cost"]["by_rates"]
    assert "the sources' rates" in run("plan", ws, "--sample", "s-001").out


def test_it_leaves_with_the_source(ws: Path):
    run("source", ws, "ann", "--owner", "a very findable owner")
    run("forget", ws, "--yes", "--sample", "s-003")
    assert run("status", ws, "--json").json["sources"]["ann"]["owner"]
    run("forget", ws, "--yes", "--source", "ann")
    assert "ann" not in run("status", ws, "--json").json["sources"]
    assert not [path for path in ws.rglob("*") if path.is_file() and b"findable owner" in path.read_bytes()]


def test_it_can_be_cleared_alone(ws: Path):
    run("source", ws, "bob", "--owner", "Bob")
    assert run("source", ws, "bob", "--clear", "--json").json["cleared"]
    assert run("status", ws, "--json").json["sources"]["bob"]["owner"] == ""
    assert run("source", ws, "bob", "--clear", "--owner", "Bob").code == 2


def test_what_makes_no_sense_is_refused(ws: Path):
    assert run("source", ws, "nobody", "--owner", "x").code == 1


@pytest.mark.parametrize("fine", [1, 2])
def test_a_class_that_is_added_later_moves_no_sample_and_leaves_without_a_trace(tmp_path: Path, data: Path, fine: int):
    """docs/data.md says this."""
    late, graph = arrays(24, start=100), ("--coarse", 2, "--fine", fine, "--epochs", 1)
    np.savez(tmp_path / "late.npz", **late | {"labels": np.array(["elk"] * 24)})
    ws, fresh, declared = (tmp_path / name for name in ("ws", "fresh", "declared"))
    run("init", ws, "--seed", 1)
    run("add", ws, data / "data.npz")
    before = run("train", ws, *graph, "--json").json["model_digest"]
    placed = _units(ws)
    added = run("add", ws, tmp_path / "late.npz", "--json").json
    assert {sample: unit for sample, unit in _units(ws).items() if sample in placed} == placed
    assert json.loads((ws / "config.json").read_bytes())["classes"] == ["ant", "bee", "cat", "dog"]
    assert json.loads((ws / "manifest.json").read_bytes())["classes"] == ["ant", "bee", "cat", "dog", "elk"]
    assert "elk" in {one["label"] for one in run("evaluate", ws, "--json").json["classes"]}
    for other, classes in ((fresh, ()), (declared, ("--classes", "ant,bee,cat,dog"))):
        run("init", other, "--seed", 1, *classes)
        run("add", other, data / "data.npz", tmp_path / "late.npz")
        same = run("train", other, *graph, "--json").json["model_digest"] == added["model_digest"]
        assert same == (fine == 1 or other == declared)
    assert run("forget", ws, "--yes", "--label", "elk", "--json").json["model_digest"] == before


def _units(ws: Path) -> dict[str, str]:
    with Workspace(ws) as workspace:
        catalogue = workspace.context.catalogue
        return {row.id: row.unit for row in inventory.find_by_id(catalogue, inventory.all_ids(catalogue))}
