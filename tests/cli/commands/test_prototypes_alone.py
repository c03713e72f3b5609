"""`train --adapter none`: the model is the prototypes alone, through every command."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import arrays, refused, run
from tests.strategies import promised_files

ALONE = ("--coarse", 4, "--fine", 1, "--adapter", "none")


def trained(root: Path, keep: np.ndarray, *options: object) -> Path:
    """A workspace of these rows of the data, trained without adapters."""
    path = root.with_suffix(".npz")
    np.savez(path, **{name: column[keep] for name, column in arrays().items()})
    assert run("init", root, "--seed", 1).code == 0
    assert run("add", root, path).code == 0
    done = run("train", root, *ALONE, *options, "--json")
    assert done.code == 0, done.err
    assert (done.json["groups"], done.json["lambda"]) == (0, 1.0)
    return root


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    return trained(tmp_path / "alone", np.arange(60))


@pytest.mark.parametrize("method", ["second", "safe"])
def test_what_was_forgotten_was_never_seen_byte_for_byte(tmp_path: Path, method: str):
    ids, leaving = arrays()["ids"], np.array([1, 2, 7, 10])
    ws = trained(tmp_path / "forgot", np.arange(60), "--method", method)
    assert run("evaluate", ws, "--json").json["accuracy"] > 0.8
    forgot = run("forget", ws, "--yes", *(word for i in leaving for word in ("--sample", ids[i])), "--json").json
    never = trained(tmp_path / "never", np.delete(np.arange(60), leaving), "--method", method)
    assert promised_files(ws) == promised_files(never) and not list((ws / "models").rglob("*.safetensors"))
    digest = run("status", never, "--json").json["model_digest"]
    assert forgot["model_digest"] == run("status", ws, "--json").json["model_digest"] == digest
    assert run("verify", ws, "--full").code == 0


def test_a_source_and_a_class_leave_at_once_and_nothing_is_retrained(alone: Path):
    plan = run("plan", alone, "--source", "ann", "--json").json
    assert plan["samples"] > 0
    assert (plan["groups_to_rebuild"], plan["adapters_to_rebuild"], plan["samples_to_revisit"]) == (0, 0, 0)
    done = run("forget", alone, "--yes", "--source", "ann", "--instant", "--json").json
    assert done["event"] == "forget" and done["guarantee"].startswith("exact: ")
    assert run("repair", alone, "--json").json["certificate"] is None
    run("forget", alone, "--yes", "--label", "cat")
    status = run("status", alone, "--json").json
    assert status["complete"] and status["classes"] == 3 and status["shards"] > 1
    assert status["recipe"]["adapter"] == "none"
    assert run("verify", alone, "--full", "--json").json["ok"]


def test_more_samples_are_learned_as_if_they_had_been_there(alone: Path, data: Path, tmp_path: Path):
    assert run("add", alone, data / "more.npz").code == 0
    again = run("train", alone, "--json").json
    columns = {name: np.concatenate([values, arrays(10, start=60)[name]]) for name, values in arrays().items()}
    np.savez(tmp_path / "all.npz", **columns)
    run("init", tmp_path / "ws", "--seed", 1)
    run("add", tmp_path / "ws", tmp_path / "all.npz")
    assert run("train", tmp_path / "ws", *ALONE, "--json").json["model_digest"] == again["model_digest"]
    assert "fixed the recipe" in refused(alone, "train", alone, "--adapter", "linear").err


def test_a_right_has_the_prototypes_of_its_part(alone: Path, data: Path, tmp_path: Path):
    reach = run("grant", alone, "eve", "--source", "ann", "--json").json
    assert (reach["reach"]["lacking"], reach["reach"]["of_groups"]) == (0, 0) and reach["reach"]["samples"] > 0
    part = trained(tmp_path / "part", arrays()["sources"] == "ann")
    found = run("predict", alone, data / "new.npz", "--as", "eve", "--json").json
    assert found["model_digest"] == run("status", part, "--json").json["model_digest"]
    assert found["predictions"] == run("predict", part, data / "new.npz", "--json").json["predictions"]
    assert run("provision", alone, "eve").code == 0
    assert run("evaluate", alone, "--as", "eve", "--json").json["accuracy"] > 0.5
    assert run("revoke", alone, "eve", "--source", "ann").code == 0
    assert run("verify", alone, "--full").code == 0


def test_the_other_commands_answer(alone: Path, tmp_path: Path):
    assert run("twins", alone, "--json").json["exact"] == 0
    assert run("report", alone, "--out", tmp_path / "report.html").code == 0
    assert "no adapters: prototypes answer" in (tmp_path / "report.html").read_text()
    assert run("train", alone, "--rebuild").code == 0
    assert run("verify", alone).code == 0


REFUSED = {
    "private edges": (
        ("--topology", "by-source", "--safe", "ann", "--private-edges", "--epsilon", 2, "--delta", "1e-11"),
        "private edges need adapters to train, got adapter 'none': give --adapter linear",
    ),
    "no prototypes": (("--coarse", 2, "--no-prototypes"), "adapter 'none' needs prototypes"),
    "mixing": (("--coarse", 2, "--mixing", 0.5), "mixing must be left out with adapter 'none', got 0.5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused(untrained: Path, case: str):
    options, named = REFUSED[case]
    assert named in refused(untrained, "train", untrained, "--adapter", "none", *options).err
