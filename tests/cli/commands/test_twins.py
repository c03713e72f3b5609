"""`twins`, and the twins that `plan` lists and `forget` selects."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import arrays, run

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
    twins = run(*words, "--json").json["twins"]
    assert (twins["exact"], twins["near"], twins["samples"]) == (1, 1, ["copy", "nearly"])
    assert "held out" in twins["in"]
    assert "1 other sample has the same content" in run(*words).out
    assert "twins" not in run(*words, "--no-twins", "--json").json
    with_them = run(*words, "--with-twins", "--json").json
    assert with_them["samples"] == 3 and with_them["twins"]["samples"] == []


def test_twins_are_forgotten_when_asked(doubled: Path):
    forgot = run("forget", doubled, "--yes", "--sample", "s-001", "--with-twins", *STRICT, "--json").json
    assert forgot["plan"]["samples"] == 3 and set(forgot["nonces"]) == {"copy", "nearly", "s-001"}
    assert run("twins", doubled, *STRICT, "--json").json["pairs"] == []
    assert run("verify", doubled, "--full").code == 0
