"""Bad input: exit code 1, one line that names the thing, and a workspace that is as it was."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shardgraph.storage.lock import WriteLock
from tests.cli.conftest import Ran, arrays, run


def state(ws: Path) -> dict[str, Any]:
    """All of a workspace that may not change: its files, and the catalogue's rows."""
    paths = [path for path in ws.rglob("*") if path.is_file() and path.stem not in ("catalog", "lock")]
    files = {str(path.relative_to(ws)): path.read_bytes() for path in paths}
    with sqlite3.connect(ws / "catalog.sqlite") as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return files | {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


def refused(ws: Path, *words: object) -> Ran:
    """The command's failure, after a look that nothing changed; with and without --json."""
    before = state(ws)
    ran, machine = run(*words), run(*words, "--json")
    assert state(ws) == before
    assert ran.code == machine.code == 1
    assert ran.err.startswith("error: ") and len(ran.err.splitlines()) == 1 and "Traceback" not in ran.err
    assert machine.json["error"] in ran.err and machine.json["kind"] and not machine.err
    return ran


def saved(folder: Path, **changes: Any) -> Path:
    """An array file of three new samples with some arrays changed; None leaves one out."""
    columns = arrays(3, start=100) | changes
    path = folder / "bad.npz"
    np.savez(path, **{name: column for name, column in columns.items() if column is not None})
    return path


def test_unknown_samples_and_other_names(ws: Path):
    for flag in ("--sample", "--source", "--subject", "--shard", "--label"):
        for command in ("forget", "plan"):
            assert "'nobody'" in refused(ws, command, ws, flag, "nobody").err


def test_one_unknown_sample_among_known_ones_stops_all(ws: Path):
    assert "'nobody'" in refused(ws, "forget", ws, "--sample", "s-001", "--sample", "nobody").err


def test_a_request_that_names_nothing(ws: Path, tmp_path: Path):
    refused(ws, "forget", ws)
    (tmp_path / "empty").write_text("\n")
    refused(ws, "forget", ws, "--from-file", tmp_path / "empty")
    assert "missing.txt" in refused(ws, "forget", ws, "--from-file", tmp_path / "missing.txt").err


def test_a_declared_label_without_samples_and_an_empty_shard(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1, "--classes", "ant,bee,cat,dog,elk")
    run("add", ws, data / "data.npz")
    run("train", ws, "--topology", "complete", "--shards", 200, "--epochs", 1)
    assert "'elk'" in refused(ws, "forget", ws, "--label", "elk").err
    held = {str(row[0]) for row in sqlite3.connect(ws / "catalog.sqlite").execute("SELECT unit FROM samples")}
    empty = next(f"s{i:03d}" for i in range(200) if f"shard:s{i:03d}" not in held)
    assert f"'{empty}'" in refused(ws, "forget", ws, "--shard", empty).err


def test_all_samples_of_a_group_can_leave_and_it_says_so(ws: Path):
    plan = run("plan", ws, "--shard", "c0-f0", "--json").json
    assert plan["groups_that_vanish"] == 1
    assert run("forget", ws, "--shard", "c0-f0").code == 0
    assert run("verify", ws, "--full").code == 0


def test_duplicate_ids(ws: Path, tmp_path: Path, data: Path):
    assert "'s-000'" in refused(ws, "add", ws, data / "data.npz").err
    twice = saved(tmp_path, ids=np.array(["a", "b", "a"]))
    assert "'a'" in refused(ws, "add", ws, twice).err


def test_a_forgotten_sample_comes_back_only_when_allowed(ws: Path, tmp_path: Path):
    assert run("forget", ws, "--sample", "s-001").code == 0
    again = saved(tmp_path, ids=np.array(["a", "b", "s-001"]))
    assert "'s-001'" in refused(ws, "add", ws, again).err
    assert run("add", ws, again, "--allow-return").code == 0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tokens": np.full((3, 2, 8), np.nan, np.float32)}, "NaN"),
        ({"tokens": np.ones((3, 2, 9), np.float32)}, "9"),
        ({"tokens": np.ones((3, 8), np.float32)}, "tokens"),
        ({"tokens": np.ones((2, 2, 8), np.float32)}, "3"),
        ({"tokens": np.full((3, 2, 8), 1e30)}, "float16"),
        ({"tokens": None}, "tokens"),
        ({"labels": None}, "labels"),
        ({"labels": np.array(["ant", "", "bee"])}, "label"),
        ({"split": np.array(["train", "valid", "test"])}, "'valid'"),
        ({"ids": np.array(["a", "", "c"])}, "id"),
        ({"ids": np.array(["a", {}, "c"], object)}, "ids"),
    ],
)
def test_bad_arrays(ws: Path, tmp_path: Path, changes: dict[str, Any], word: str):
    assert word in refused(ws, "add", ws, saved(tmp_path, **changes)).err


def test_bad_paths(ws: Path, tmp_path: Path):
    torn = saved(tmp_path)
    torn.write_bytes(torn.read_bytes()[:100])
    refused(ws, "add", ws, torn)
    refused(ws, "add", ws, tmp_path / "missing.npz")
    refused(ws, "add", ws, tmp_path)
    refused(ws, "add", ws, Path(__file__))
    refused(ws, "predict", ws, tmp_path / "missing.npz")
    refused(ws, "predict", ws, saved(tmp_path, tokens=np.ones((3, 2, 9), np.float32)))
    refused(ws, "predict", ws, saved(tmp_path), "--out", tmp_path / "p.xlsx")


def test_an_empty_file_and_names_that_are_no_text(ws: Path, tmp_path: Path):
    empty = tmp_path / "empty.npz"
    empty.touch()
    assert "whole .npz" in refused(ws, "add", ws, empty).err
    assert "'ids' must be text in UTF-8" in refused(ws, "add", ws, saved(tmp_path, ids=np.array([b"\xff"] * 3))).err
    half = saved(tmp_path, subjects=np.array(["s\ud800"] * 3))
    assert "subjects must be valid text" in refused(ws, "add", ws, half).err
    assert "valid text" in refused(ws, "forget", ws, "--sample", "s-001", "--reason", "\udcff").err


def test_files_that_were_added_before_a_bad_one_are_named(ws: Path, tmp_path: Path, data: Path):
    bad, more = saved(tmp_path, labels=None), data / "more.npz"
    done = run("add", ws, more, bad, "--json")
    assert done.code == 1 and done.json["kind"] == "InputError" and "'labels'" in done.json["error"]
    assert f"10 samples of {more} were added and wait in the inbox; add {bad} again" in done.json["error"]
    assert run("status", ws, "--json").json["waiting"] == 10
    assert run("add", ws, saved(tmp_path)).code == 0
    assert run("status", ws, "--json").json["waiting"] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("flags", [("--json",), ()], ids=["json", "words"])
def test_an_output_that_takes_nothing_is_one_line(ws: Path, flags: tuple[str, ...]):
    words = [sys.executable, "-m", "shardgraph.cli.main", "status", str(ws), *flags]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr == "error: No space left on device: standard output\n"


def test_a_place_to_write_to_that_is_not_there_is_found_before_the_work(ws: Path, tmp_path: Path):
    place = tmp_path / "nowhere"
    assert "nowhere does not" in refused(ws, "predict", ws, saved(tmp_path), "--out", place / "p.csv").err
    assert "nowhere does not" in refused(ws, "report", ws, "--out", place / "r.html").err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1)
    run("add", ws, data / "data.npz")
    assert "no GPU" in refused(ws, "train", ws, "--coarse", 2, "--device", "cuda").err
    for device, word in (("cuda", "no GPU"), ("tpu", "'tpu'")):
        made = run("init", tmp_path / "new", "--backbone", "efficientnet-lite0", "--device", device)
        assert made.code == 1 and word in made.err and "choose cpu" in made.err
        assert not (tmp_path / "new").exists()


def test_held_out_samples_of_classes_that_the_model_does_not_have_are_counted(ws: Path, tmp_path: Path):
    assert run("evaluate", ws, "--json").json["unknown"] == 0 and "does not have" not in run("evaluate", ws).out
    stranger = saved(tmp_path, labels=np.array(["ant", "yak", "zebu"]), split=np.array(["train", "test", "test"]))
    assert run("add", ws, stranger).code == 0
    found = run("evaluate", ws, "--json").json
    assert (found["unknown"], found["samples"]) == (2, 14)
    assert "classes that the model does not have    2" in run("evaluate", ws).out


def test_a_torn_and_a_tampered_shard(ws: Path):
    path = next((ws / "shards").rglob("*.safetensors"))
    whole = path.read_bytes()
    everyone = _one_of_each_shard(ws)
    for raw in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(raw)
        assert path.name in refused(ws, "forget", ws, *everyone).err
        checked = run("verify", ws, "--json")
        assert checked.code == 1 and not checked.json["ok"] and path.name in checked.json["error"]
    path.unlink()
    assert path.name in refused(ws, "forget", ws, *everyone).err
    path.write_bytes(whole)
    assert run("forget", ws, *everyone).code == 0


def test_a_tampered_certificate_manifest_and_key(ws: Path):
    run("forget", ws, "--sample", "s-001")
    certificate = ws / "certificates" / "000001.json"
    whole = certificate.read_text()
    certificate.write_text(whole.replace('"missing": 0', '"missing": 1'))
    assert run("verify", ws).code == 1
    certificate.write_text(whole)
    assert run("verify", ws).code == 0
    (ws / "manifest.json").write_text("{")
    assert "manifest.json" in refused(ws, "evaluate", ws).err
    assert run("train", ws, "--rebuild").code == 0
    (ws / "signing.key").write_bytes(b"short")
    assert "signing.key" in refused(ws, "status", ws).err


def test_too_little_disk(ws: Path, data: Path, monkeypatch: pytest.MonkeyPatch):
    full = namedtuple("full", "total used free")(1, 1, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    assert "MB free" in refused(ws, "add", ws, data / "more.npz").err
    assert "MB free" in refused(ws, "forget", ws, "--sample", "s-001").err


def test_a_workspace_of_a_newer_version_or_none(ws: Path, tmp_path: Path):
    assert "init" in run("status", tmp_path / "nowhere").err
    assert "no workspace" in run("status", Path(__file__)).err
    config = ws / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"format": 99}))
    assert "99" in refused(ws, "status", ws).err
    config.write_text("[]")
    assert "config.json" in refused(ws, "status", ws).err


def test_other_flags_after_the_first_train(ws: Path):
    assert "topology" in refused(ws, "train", ws, "--coarse", 3).err
    assert "recipe" in refused(ws, "train", ws, "--epochs", 3).err
    assert run("train", ws, "--coarse", 2, "--fine", 1, "--epochs", 2).code == 0


def test_flags_that_make_no_sense(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1)
    refused(ws, "train", ws, "--coarse", 2)  # nothing to train on
    run("add", ws, data / "data.npz")
    refused(ws, "train", ws)  # no topology
    own = tmp_path / "own.json"
    own.write_text('{"shards": ["ann"], "edges": [["ann", "bob"]]}')
    for flags in (
        ("--coarse", 0),
        ("--coarse", 2, "--fine", 9),
        ("--coarse", 2, "--assignment", "fair"),
        ("--topology", "ring"),
        ("--topology", "random", "--shards", 3),
        ("--topology", "by-source", "--coarse", 3),
        ("--topology", own),
        ("--topology", own, "--coarse", 2),
        ("--topology", tmp_path / "missing.json"),
        ("--coarse", 2, "--recipe", "secret"),
        ("--coarse", 2, "--loss", "mse"),
        ("--coarse", 2, "--epochs", 0),
        ("--coarse", 2, "--heads", 3),
        ("--coarse", 2, "--lr", -1),
        ("--coarse", 2, "--mixing", 2),
        ("--coarse", 2, "--device", "abacus"),
    ):
        refused(ws, "train", ws, *flags)


def test_init_where_something_is(ws: Path, tmp_path: Path):
    assert "ws" in refused(ws, "init", ws).err
    for flags in (("--dtype", "int8"), ("--classes", "a,,b"), ("--classes", "@missing"), ("--backbone", "brain")):
        assert run("init", tmp_path / "new", *flags).code == 1
        assert not (tmp_path / "new").exists()


def test_a_sample_that_no_shard_takes_is_refused_when_it_comes(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1)
    run("add", ws, data / "data.npz")
    run("train", ws, "--topology", "by-source", "--epochs", 1)
    assert "'s-101'" in refused(ws, "add", ws, saved(tmp_path, sources=np.array(["ann", "", "bob"]))).err


def test_a_second_writer(ws: Path, data: Path):
    with WriteLock(ws):
        for words in (("forget", ws, "--sample", "s-001"), ("add", ws, data / "more.npz"), ("train", ws)):
            assert "another process" in refused(ws, *words).err
        assert run("status", ws).code == run("evaluate", ws).code == 0  # readers need no lock


def test_embeddings_for_another_backbone_and_images_for_none(ws: Path, tmp_path: Path, write_png: Callable[..., None]):
    write_png(tmp_path / "photos" / "ant" / "1.png")
    assert "precomputed" in refused(ws, "add", ws, tmp_path / "photos").err
    assert "MEANING" in refused(ws, "add", ws, tmp_path / "photos", "--column", "nonsense").err


def test_windows_is_refused_in_words(tmp_path: Path):
    code = "import sys; sys.modules['fcntl'] = None; from shardgraph.cli.main import main; main()"
    words = [sys.executable, "-c", code, "status", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and "Windows" in done.stderr and "Traceback" not in done.stderr


def test_an_unexpected_error_is_one_line_unless_debugged(ws: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: 1 / 0)
    short = run("forget", ws, "--sample", "s-001")
    assert short.code == 1 and "ZeroDivisionError" in short.err and len(short.err.splitlines()) == 1
    monkeypatch.setenv("SHARDGRAPH_DEBUG", "1")
    assert run("forget", ws, "--sample", "s-001").code == 1  # the runner keeps the exception it was given


def _one_of_each_shard(ws: Path) -> tuple[str, ...]:
    """Options that name one sample of each shard."""
    with sqlite3.connect(ws / "catalog.sqlite") as db:
        names = [n for (n,) in db.execute("SELECT min(id) FROM samples WHERE unit LIKE 'shard:%' GROUP BY unit")]
    return tuple(word for name in names for word in ("--sample", name))


@pytest.fixture
def write_png() -> Callable[..., None]:
    """Writes a small picture."""
    from PIL import Image

    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(path)

    return write
