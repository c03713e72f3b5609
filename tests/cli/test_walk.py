"""The whole walk, as scripts take it: every command, its JSON and its exit code."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import COUNT, run

TRAIN = ("--coarse", 2, "--fine", 1, "--epochs", 2)


def test_a_walk_from_init_to_verify(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    made = run("init", ws, "--backbone", "precomputed", "--seed", 1, "--json").json
    assert made["seed"] == 1 and made["public_key"] == (ws / "public.key").read_text().strip()
    added = run("add", ws, data / "data.npz", "--json").json
    assert (added["added"], added["waiting"], added["model_digest"]) == (COUNT, COUNT, None)
    trained = run("train", ws, *TRAIN, "--json").json
    assert trained["groups"] == 2 and trained["classes"] == 4
    evaluated = run("evaluate", ws, "--json").json
    assert 0 <= evaluated["accuracy"] <= 1 and evaluated["samples"] == COUNT // 5
    status = run("status", ws, "--json").json
    assert status["model_digest"] == trained["model_digest"] and status["disk_bytes"] > 0
    plan = run("plan", ws, "--sample", "s-001", "--json").json
    assert (plan["samples"], plan["groups_to_rebuild"]) == (1, 1)
    forgot = run("forget", ws, "--sample", "s-001", "--json").json
    assert forgot["certificate"] == 1 and not forgot["already_forgotten"] and forgot["plan"].items() <= plan.items()
    assert forgot["model_digest"] != trained["model_digest"] and set(forgot["nonces"]) == {"s-001"}
    assert Path(forgot["certificate_file"]).exists()
    verified = run("verify", ws, "--full", "--json").json
    assert verified["ok"] and len(verified["checks"]) == 10
    assert run("repair", ws, "--json").json["repaired"] is False


def test_what_was_forgotten_was_never_seen(ws: Path, tmp_path: Path, data: Path):
    digest = run("forget", ws, "--source", "bob", "--json").json["model_digest"]
    fresh, kept = tmp_path / "fresh", tmp_path / "kept.npz"
    _without(data / "data.npz", kept, "sources", "bob")
    run("init", fresh, "--seed", 1, "--classes", "ant,bee,cat,dog")
    run("add", fresh, kept)
    assert run("train", fresh, *TRAIN, "--json").json["model_digest"] == digest


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


def test_forgetting_again_names_the_certificate(ws: Path):
    first = run("forget", ws, "--sample", "s-001", "--json").json
    again = run("forget", ws, "--sample", "s-001", "--json")
    assert again.code == 0 and again.json["already_forgotten"] and again.json["certificate"] == 1
    assert again.json["nonces"] == first["nonces"]
    assert "000001.json" in run("forget", ws, "--sample", "s-001").out


@pytest.mark.parametrize(
    ("flag", "name", "count"), [("--source", "ann", 20), ("--subject", "p2", 4), ("--label", "cat", 15)]
)
def test_every_way_to_name_what_leaves(ws: Path, flag: str, name: str, count: int):
    assert run("forget", ws, flag, name, "--json").json["plan"]["samples"] == count


def test_forgetting_a_whole_shard(ws: Path):
    left = run("status", ws, "--json").json["samples"]["train"]
    done = run("forget", ws, "--shard", "c0-f0", "--json").json
    after = run("status", ws, "--json").json
    assert after["samples"]["train"] == left - done["plan"]["samples"] and after["shards"] == 1


def test_ids_from_a_file_and_from_standard_input(ws: Path, tmp_path: Path):
    names = tmp_path / "ids.txt"
    names.write_text("s-001\ns-002\r\n\n")
    assert run("forget", ws, "--from-file", names, "--json").json["plan"]["samples"] == 2
    assert run("forget", ws, "--from-file", "-", "--json", stdin="s-003\n").json["plan"]["samples"] == 1


def test_instant_and_repair_give_what_forget_gives(ws: Path, tmp_path: Path):
    twin = Path(shutil.copytree(ws, tmp_path / "twin"))
    instant = run("forget", ws, "--sample", "s-001", "--instant", "--json").json
    assert instant["event"] == "instant"
    assert run("status", ws, "--json").json["groups"] == {"serving": 1, "missing": 1}
    assert "repair" in run("status", ws).out
    assert run("evaluate", ws).code == 0
    repaired = run("repair", ws, "--json").json
    assert repaired["repaired"] and repaired["certificate"] == 2
    assert repaired["model_digest"] == run("forget", twin, "--sample", "s-001", "--json").json["model_digest"]


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


def test_a_certificate_can_be_checked_with_the_public_key_alone(ws: Path, tmp_path: Path):
    forgot = run("forget", ws, "--sample", "s-001", "--json").json
    nonce, key = forgot["nonces"]["s-001"], (ws / "public.key").read_text().strip()
    assert run("certificate", ws, "--nonce-for", "s-001", "--json").json["nonces"] == {"s-001": nonce}
    alone = Path(shutil.copy(forgot["certificate_file"], tmp_path / "c.json"))
    shutil.rmtree(ws)
    check = ("verify-certificate", alone, "--public-key", key)
    assert run(*check, "--json").json["ok"]
    assert run(*check, "--open", "s-001", "--nonce", nonce, "--json").json["opened"]
    assert run(*check, "--open", "s-002", "--nonce", nonce).code == 1
    assert run(*check, "--open", "s-001").code == 2
    assert run("verify-certificate", alone, "--public-key", "00" * 32).code == 1
    alone.write_text(alone.read_text().replace('"missing": 0', '"missing": 1'))
    assert run(*check).code == 1
    for value in (float("nan"), "\ud800"):
        alone.write_text(json.dumps(json.loads(alone.read_text()) | {"number": value}))
        assert (refused := run(*check, "--json")).code == 1 and refused.json["kind"] == "DamagedFile"
    assert run("verify-certificate", alone, "--public-key", "00" * 32, "--json").json["kind"] == "VerificationError"


def test_other_topologies_and_recipes(tmp_path: Path, data: Path):
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
        ws = tmp_path / f"ws{i}"
        run("init", ws, "--seed", 1)
        run("add", ws, data / "data.npz")
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
    run("forget", ws, "--sample", "s-001")
    (ws / "secret.key").write_bytes(bytes(range(32)))
    assert run("train", ws).code == 0
    assert run("verify", ws, "--full").code == 0
    assert run("forget", ws, "--sample", "s-001").code == 1


def test_people_get_tables(ws: Path, data: Path):
    for words in (("status", ws), ("evaluate", ws), ("plan", ws, "--label", "cat"), ("verify", ws), ("train", ws)):
        shown = run(*words)
        assert shown.code == 0 and not shown.err and len(shown.out.splitlines()) > 2
    assert "nonce" in run("forget", ws, "--sample", "s-001", "--reason", "asked").out
    assert "certificate 1" in run("certificate", ws, "1").out


def _without(old: Path, new: Path, column: str, value: str) -> None:
    import numpy as np

    with np.load(old) as file:
        kept = file[column] != value
        np.savez(new, **{name: file[name][kept] for name in file.files})
