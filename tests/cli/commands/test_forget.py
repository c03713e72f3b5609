"""`plan`, `forget` and `repair`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import inventory
from tests.cli.conftest import TRAIN, refused, run


def test_what_was_forgotten_was_never_seen(ws: Path, tmp_path: Path, data: Path):
    digest = run("forget", ws, "--yes", "--source", "bob", "--json").json["model_digest"]
    fresh, kept = tmp_path / "fresh", tmp_path / "kept.npz"
    _without(data / "data.npz", kept, "sources", "bob")
    run("init", fresh, "--seed", 1, "--classes", "ant,bee,cat,dog")
    run("add", fresh, kept)
    assert run("train", fresh, *TRAIN, "--json").json["model_digest"] == digest


def _without(old: Path, new: Path, column: str, value: str) -> None:
    with np.load(old) as file:
        kept = file[column] != value
        np.savez(new, **{name: file[name][kept] for name in file.files})


def test_forgetting_again_names_the_certificate(ws: Path):
    first = run("forget", ws, "--yes", "--sample", "s-001", "--json").json
    again = run("forget", ws, "--yes", "--sample", "s-001", "--json")
    assert again.code == 0 and again.json["already_forgotten"] and again.json["certificate"] == 1
    assert again.json["nonces"] == first["nonces"]
    assert "000001.json" in run("forget", ws, "--yes", "--sample", "s-001").out


@pytest.mark.parametrize(
    ("flag", "name", "count"), [("--source", "ann", 20), ("--subject", "p2", 4), ("--label", "cat", 15)]
)
def test_every_way_to_name_what_leaves(ws: Path, flag: str, name: str, count: int):
    assert run("forget", ws, "--yes", flag, name, "--json").json["plan"]["samples"] == count


def test_forgetting_a_whole_shard(ws: Path):
    left = run("status", ws, "--json").json["samples"]["train"]
    done = run("forget", ws, "--yes", "--shard", "c0-f0", "--json").json
    after = run("status", ws, "--json").json
    assert after["samples"]["train"] == left - done["plan"]["samples"] and after["shards"] == 1


def test_ids_from_a_file_and_from_standard_input(ws: Path, tmp_path: Path):
    names = tmp_path / "ids.txt"
    names.write_text("s-001\ns-002\r\n\n")
    assert run("forget", ws, "--yes", "--from-file", names, "--json").json["plan"]["samples"] == 2
    assert run("forget", ws, "--yes", "--from-file", "-", "--json", stdin="s-003\n").json["plan"]["samples"] == 1


def test_instant_and_repair_give_what_forget_gives(ws: Path, tmp_path: Path):
    twin = Path(shutil.copytree(ws, tmp_path / "twin"))
    instant = run("forget", ws, "--yes", "--sample", "s-001", "--instant", "--json").json
    assert instant["event"] == "instant"
    assert run("status", ws, "--json").json["groups"] == {"serving": 1, "missing": 1}
    assert "repair" in run("status", ws).out
    assert run("evaluate", ws).code == 0
    repaired = run("repair", ws, "--json").json
    assert repaired["repaired"] and repaired["certificate"] == 2
    assert repaired["model_digest"] == run("forget", twin, "--yes", "--sample", "s-001", "--json").json["model_digest"]


def test_unknown_samples_and_other_names(ws: Path):
    for flag in ("--sample", "--source", "--subject", "--shard", "--label"):
        for words in (("forget", ws, "--yes"), ("plan", ws)):
            assert "'nobody'" in refused(ws, *words, flag, "nobody").err


def test_one_unknown_sample_among_known_ones_stops_all(ws: Path):
    assert "'nobody'" in refused(ws, "forget", ws, "--yes", "--sample", "s-001", "--sample", "nobody").err


def test_a_request_that_names_nothing(ws: Path, tmp_path: Path):
    refused(ws, "forget", ws, "--yes")
    (tmp_path / "empty").write_text("\n")
    refused(ws, "forget", ws, "--yes", "--from-file", tmp_path / "empty")
    assert "missing.txt" in refused(ws, "forget", ws, "--yes", "--from-file", tmp_path / "missing.txt").err


def test_a_declared_label_without_samples_and_an_empty_shard(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1, "--classes", "ant,bee,cat,dog,elk")
    run("add", ws, data / "data.npz")
    run("train", ws, "--topology", "complete", "--shards", 200, "--epochs", 1)
    assert "'elk'" in refused(ws, "forget", ws, "--yes", "--label", "elk").err
    with Workspace(ws) as workspace:
        held = inventory.occupied_units(workspace.context.catalogue)
    empty = next(f"s{i:03d}" for i in range(200) if f"shard:s{i:03d}" not in held)
    assert f"'{empty}'" in refused(ws, "forget", ws, "--yes", "--shard", empty).err


def test_all_samples_of_a_group_can_leave_and_it_says_so(ws: Path):
    plan = run("plan", ws, "--shard", "c0-f0", "--json").json
    assert plan["groups_that_vanish"] == 1
    assert run("forget", ws, "--yes", "--shard", "c0-f0").code == 0
    assert run("verify", ws, "--full").code == 0


def test_a_torn_and_a_tampered_shard(ws: Path):
    path = next((ws / "shards").rglob("*.safetensors"))
    whole = path.read_bytes()
    everyone = _one_of_each_shard(ws)
    for raw in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(raw)
        assert path.name in refused(ws, "forget", ws, "--yes", *everyone).err
        checked = run("verify", ws, "--json")
        assert checked.code == 1 and not checked.json["ok"] and path.name in checked.json["error"]
    path.unlink()
    assert path.name in refused(ws, "forget", ws, "--yes", *everyone).err
    path.write_bytes(whole)
    assert run("forget", ws, "--yes", *everyone).code == 0


def _one_of_each_shard(ws: Path) -> tuple[str, ...]:
    """Options that name one sample of each shard."""
    with Workspace(ws) as workspace:
        catalogue = workspace.context.catalogue
        units = [unit for unit in inventory.occupied_units(catalogue) if unit.startswith("shard:")]
        names = [inventory.find_in_unit(catalogue, unit)[0].id for unit in units]
    return tuple(word for name in names for word in ("--sample", name))


def test_forget_says_that_a_declared_source_stays_in_the_configuration(untrained: Path):
    assert run("train", untrained, "--topology", "by-source", "--safe", "bob", "--epochs", 1).code == 0
    other = run("forget", untrained, "--yes", "--source", "ann", "--json")
    assert "config.json" not in other.err and b"ann" not in (untrained / "config.json").read_bytes()
    part = run("forget", untrained, "--yes", "--sample", "s-000", "--json")
    assert "config.json" not in part.err
    for words in (("--json",), ()):  # the second time it is forgotten already
        done = run("forget", untrained, "--yes", "--source", "bob", *words)
        assert done.code == 0 and "'bob'" in done.err and "stay in config.json" in done.err
    assert b'"bob"' in (untrained / "config.json").read_bytes()
    assert "bob" not in json.dumps(run("status", untrained, "--json").json)


def test_training_and_test_samples_are_counted_apart(ws: Path):
    plan = run("plan", ws, "--label", "bee", "--json").json
    assert (plan["samples"], plan["training_samples"], plan["test_samples"]) == (15, 12, 3)
    shown = run("plan", ws, "--label", "bee").out
    assert "15: 12 train, 3 test" in shown and "without these test samples" in shown
    assert "1: 1 train, 0 test" in run("plan", ws, "--sample", "s-001").out
    forgot = run("forget", ws, "--yes", "--label", "bee", "--json").json["plan"]
    assert (forgot["training_samples"], forgot["test_samples"]) == (12, 3)
    assert run("status", ws, "--json").json["samples"] == {"train": 36, "test": 9}


def test_under_other_numerics_it_says_that_nothing_was_rebuilt(ws: Path, tmp_path: Path, other_torch: None):
    twin = Path(shutil.copytree(ws, tmp_path / "twin"))
    ran = run("forget", ws, "--yes", "--sample", "s-001")
    assert ran.code == 4 and "groups rebuilt" not in ran.out and "train --rebuild" in ran.err
    assert "withdrawn, not rebuilt" in ran.out and "1: 1 train, 0 test" in ran.out
    told = run("forget", twin, "--yes", "--sample", "s-001", "--json")
    assert told.code == 4 and told.json["event"] == "instant" and told.json["rebuilt"] is False
    again = run("forget", twin, "--yes", "--sample", "s-001", "--json")
    assert again.code == 0 and again.json["already_forgotten"]
    assert run("forget", twin, "--yes", "--sample", "s-002", "--instant").code == 0  # what was asked for
    assert run("train", twin, "--rebuild").code == 0
    assert run("forget", twin, "--yes", "--sample", "s-003", "--json").json["rebuilt"] is True


def test_the_seconds_include_the_solve_that_the_next_prediction_waits_for(ws: Path, tmp_path: Path):
    small = run("forget", ws, "--yes", "--sample", "s-001", "--json").json
    assert small["solve_seconds"] == 0 < small["seconds"]
    wide, file = tmp_path / "wide", tmp_path / "wide.npz"
    rng = np.random.default_rng(0)
    np.savez(file, tokens=rng.normal(size=(40, 2, 32)), labels=np.arange(40) % 2, ids=np.arange(40).astype(str))
    run("init", wide, "--seed", 1)
    run("add", wide, file)
    assert run("train", wide, "--coarse", 2, "--epochs", 1).code == 0
    forgot = run("forget", wide, "--yes", "--sample", "1", "--json").json
    assert 0 < forgot["solve_seconds"] < forgot["seconds"]
    assert "as the next prediction does" in run("forget", wide, "--yes", "--sample", "2").out
