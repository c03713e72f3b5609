"""`twins`, and the twins that `plan` lists and `forget` selects."""

from pathlib import Path

import numpy as np
import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import inventory
from tests.cli.conftest import arrays, run, state

STRICT = ("--threshold", 0.999)


@pytest.fixture
def doubled(tmp_path: Path) -> Path:
    """A trained workspace in which s-001 is there twice more: once equal, once nearly, and held out."""
    data = arrays()
    more = {name: values[[1, 1]] for name, values in data.items()}
    more["ids"], more["split"] = np.array(["copy", "nearly"]), np.array(["train", "test"])
    more["tokens"][1] += 0.01
    np.savez(tmp_path / "all.npz", **{name: np.concatenate([data[name], more[name]]) for name in data})
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1)
    run("add", ws, tmp_path / "all.npz")
    assert run("train", ws, "--coarse", 2, "--fine", 1, "--epochs", 1).code == 0
    return ws


def test_twins_are_listed(doubled: Path):
    found = run("twins", doubled, *STRICT, "--json").json
    assert (found["exact"], found["near"]) == (1, 2) and found["pairs"][0]["exact"]
    assert {found["pairs"][0]["sample"], found["pairs"][0]["other"]} == {"copy", "s-001"}
    one = run("twins", doubled, "--sample", "nearly", *STRICT, "--json").json
    assert {pair["other"] for pair in one["pairs"]} == {"copy", "s-001"}
    assert "equal" in run("twins", doubled).out
    assert run("twins", doubled, "--sample", "nobody").code == 1


def test_a_plan_tells_of_twins(doubled: Path):
    words = ("plan", doubled, "--sample", "s-001", *STRICT)
    found = run(*words, "--json").json
    assert found["exact_copies"] == 1
    assert (found["twins"]["exact"], found["twins"]["near"], found["twins"]["samples"]) == (1, None, ["copy"])
    twins = run(*words, "--near-twins", "--json").json["twins"]
    assert (twins["exact"], twins["near"], twins["samples"]) == (1, 1, ["copy", "nearly"])
    assert "held out" in twins["in"]
    assert "nearly the same content" in run(*words, "--near-twins").out
    assert "1 other sample has the same content" in run(*words).out
    short = run(*words, "--no-twins", "--json").json
    assert "twins" not in short and short["exact_copies"] == 1
    assert run(*words, "--no-twins", "--near-twins").code == 2
    with_them = run(*words, "--with-twins", "--json").json
    assert with_them["samples"] == 3 and with_them["twins"]["samples"] == []


def test_twins_are_forgotten_when_asked(doubled: Path):
    forgot = run("forget", doubled, "--yes", "--sample", "s-001", "--with-twins", *STRICT, "--json").json
    assert forgot["plan"]["samples"] == 3 and set(forgot["nonces"]) == {"copy", "nearly", "s-001"}
    assert run("twins", doubled, *STRICT, "--json").json["pairs"] == []
    assert run("verify", doubled, "--full").code == 0


def test_exact_copies_are_counted_without_reading_any_file(doubled: Path):
    for path in [*(doubled / "shards").rglob("*.safetensors"), *(doubled / "heldout").rglob("*.safetensors")]:
        path.write_bytes(b"unreadable")
    assert run("plan", doubled, "--sample", "s-001", "--json").json["exact_copies"] == 1
    assert run("plan", doubled, "--sample", "s-001", "--sample", "copy", "--json").json["exact_copies"] == 0
    assert run("plan", doubled, "--sample", "s-002", "--json").json["exact_copies"] == 0


def test_a_forget_says_how_many_exact_copies_stay(doubled: Path):
    first = run("forget", doubled, "--yes", "--sample", "s-001")
    assert first.code == 0 and "exact copies that stay" in first.out and "1; `shardgraph twins`" in first.out
    other = run("forget", doubled, "--yes", "--sample", "copy", "--json").json
    assert other["exact_copies"] == 0


def test_the_hash_of_the_content_is_erased_with_the_sample(doubled: Path):
    with Workspace(doubled) as workspace:
        found = inventory.contents_of(workspace.context.catalogue, ["s-001", "copy", "s-003", "nearly"])
    assert found["s-001"] == found["copy"] and len(set(found.values())) == 3
    held = [name for name, content in found.items() if content.encode() in (doubled / "catalog.sqlite").read_bytes()]
    assert len(held) == 4, "the search works"
    run("forget", doubled, "--yes", "--sample", "s-003")
    run("forget", doubled, "--yes", "--sample", "s-001", "--sample", "copy")
    raw = b"".join(path.read_bytes() for path in doubled.rglob("*") if path.is_file())
    assert [name for name, content in found.items() if content.encode() in raw] == ["nearly"]
    assert run("verify", doubled, "--full").code == 0


def test_samples_of_an_earlier_version_are_compared_and_hashed_by_the_next_command_that_writes(doubled: Path):
    with Workspace(doubled) as workspace, workspace.context.catalogue.transaction() as transaction:
        transaction.execute("UPDATE samples SET content = NULL")
    before = state(doubled)
    assert run("plan", doubled, "--sample", "s-001", "--json").json["exact_copies"] == 1
    assert state(doubled) == before
    assert run("forget", doubled, "--yes", "--sample", "s-001", "--json").json["exact_copies"] == 1
    with Workspace(doubled) as workspace:
        assert inventory.unhashed_units(workspace.context.catalogue) == []
    assert run("verify", doubled, "--full").code == 0


def test_what_cannot_be_read_is_not_compared_and_does_not_stop_a_forget(doubled: Path):
    with Workspace(doubled) as workspace:
        catalogue = workspace.context.catalogue
        with catalogue.transaction() as transaction:
            transaction.execute("UPDATE samples SET content = NULL")
        unit = next(unit for unit in inventory.occupied_units(catalogue) if unit.startswith("test:"))
        path, count = workspace.context.store.path(unit), len(inventory.find_in_unit(catalogue, unit))
    path.write_bytes(b"torn")
    ran = run("forget", doubled, "--yes", "--sample", "s-001", "--json")
    assert ran.code == 0 and ran.json["exact_copies"] == 1
    assert f"{count} samples are in damaged files" in ran.err
