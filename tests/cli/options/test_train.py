"""The option groups of `train`: what they refuse, and private edges from training to the certificate."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import TRAIN, misused, refused, run

GRAPH = ("--topology", "by-source", "--safe", "ann", "--safe", "bob", "--safe", "web")
QUICK = ("--private-steps", 2, "--epochs", 2, "--loss", "bce", "--adapter", "linear")
PRIVATE = ("--private-edges", "--epsilon", 2, "--delta", "1e-20", "--budget", "paper")


def test_other_flags_after_the_first_train(ws: Path):
    assert "topology" in refused(ws, "train", ws, "--coarse", 3).err
    assert "recipe" in refused(ws, "train", ws, "--epochs", 3).err
    assert run("train", ws, "--coarse", 2, "--fine", 1, "--epochs", 2).code == 0


def test_invalid_options(untrained: Path, tmp_path: Path):
    empty = tmp_path / "empty"
    run("init", empty, "--seed", 1)
    assert run("train", empty, "--coarse", 2).code == 1  # nothing to train on; it records the identity
    refused(empty, "train", empty, "--coarse", 2)
    refused(untrained, "train", untrained)  # no topology
    own = tmp_path / "own.json"
    own.write_text('{"shards": ["ann"], "edges": [["ann", "bob"]]}')
    refused(untrained, "train", untrained, "--topology", own)
    misused(untrained, "train", untrained, "--topology", own, "--coarse", 2)
    for flags in (("--fine", 9), ("--heads", 3)):  # values that do not fit the samples
        refused(untrained, "train", untrained, "--coarse", 2, *flags)


def test_a_walk_with_private_edges(untrained: Path):
    trained = run("train", untrained, *GRAPH, *QUICK, *PRIVATE, "--json").json
    assert trained["groups"] == 3 and trained["privacy"]["epsilon"] == 2 and trained["privacy"]["noise"] > 1
    plan = run("plan", untrained, "--sample", "s-001", "--no-twins", "--json").json["privacy"]
    assert plan["groups_charged"] == 2 and plan["after"]["removed"] == 1 and plan["before"]["removed"] == 0
    assert "groups charged" in run("plan", untrained, "--sample", "s-001", "--no-twins").out
    forgot = run("forget", untrained, "--yes", "--sample", "s-001", "--json").json
    assert forgot["guarantee"].startswith("private: 3 groups") and "exact" not in json.dumps(forgot["guarantee"])
    assert run("forget", untrained, "--yes", "--sample", "s-001", "--json").json["already_forgotten"]
    status = run("status", untrained, "--json").json["privacy"]
    assert status["removed"] == 1 and status["method"] == "formula/rdp"
    left = status["shards"]["bob"]
    shown = run("status", untrained).out
    assert f"{left['left']} of {left['of']} requests left" in shown and "vacuous in beta" in shown
    verified = run("verify", untrained, "--full", "--json").json
    assert verified["ok"] and "3 with private edges" in verified["checks"][-1]["detail"]
    certificate = run("certificate", untrained, "--json").json
    assert certificate["privacy"]["removed"] == 1
    public = (untrained / "public.key").read_text().strip()
    file = untrained / "certificates" / "000001.json"
    assert run("verify-certificate", file, "--public-key", public).code == 0
    file.write_text(file.read_text().replace('"removed": 1', '"removed": 0'))
    assert run("verify-certificate", file, "--public-key", public).code == 1
    page = untrained.parent / "report.html"
    assert run("report", untrained, "--out", page).code == 0 and "must get the same digest" not in page.read_text()


def test_a_graph_with_weights_of_its_own(untrained: Path, tmp_path: Path):
    graph = {"shards": ["ann", "bob", "web"], "edges": [["ann", "bob"], ["web", "bob", 2.0]]}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    terms = ("--epsilon", 2, "--delta", "1e-20", "--budget", "paper")
    assert run("train", untrained, "--topology", tmp_path / "graph.json", *QUICK, *terms, "--json").json["groups"] == 3
    status = run("status", untrained, "--json").json["privacy"]
    assert status["groups"] == 1 and list(status["shards"]) == ["bob"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--private-edges", "--epsilon", 2, "--delta", 0.5), "delta must be below 1/n"),
        ((*PRIVATE, "--alpha-budget", 0.01), "is spent"),
        ((*PRIVATE, "--loss", "ce"), "need the loss 'bce'"),
        (PRIVATE[1:], "empty neighbourhood"),
    ],
)
def test_what_cannot_be_promised_is_refused_and_nothing_is_charged(untrained: Path, words: tuple, message: str):
    assert message in refused(untrained, "train", untrained, *GRAPH, *QUICK, *words).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--private-edges",), "need --epsilon and --delta"),
        (("--private-edges", "--epsilon", 2), "need --epsilon and --delta"),
        (("--private-edges", "--epsilon", 0, "--delta", "1e-9"), "epsilon must be a number > 0, got 0"),
        (("--private-edges", "--epsilon", -1, "--delta", "1e-9"), "epsilon must be a number > 0"),
        ((*PRIVATE, "--beta-budget", 1.5), "beta must be in (0, 1], got 1.5"),
        ((*PRIVATE, "--alpha-budget", 0), "alpha must be a number > 0"),
        ((*PRIVATE[:-1], "generous"), "a budget must be one of default, paper"),
    ],
)
def test_wrong_terms_are_an_error_of_the_command_line(untrained: Path, words: tuple, message: str):
    assert message in misused(untrained, "train", untrained, *GRAPH, *QUICK, *words).err


def test_private_edges_need_edges(untrained: Path):
    assert "empty neighbourhood" in refused(untrained, "train", untrained, "--coarse", 2, *QUICK, *PRIVATE).err


def test_other_terms_later_are_refused_and_another_budget_is_not(untrained: Path):
    assert run("train", untrained, *GRAPH, *QUICK, *PRIVATE).code == 0
    assert (
        "the first training fixed"
        in refused(untrained, "train", untrained, "--private-edges", "--epsilon", 1, "--delta", "1e-20").err
    )
    assert run("train", untrained, "--alpha-budget", 40, "--beta-budget", 0.5).code == 0
    assert run("status", untrained, "--json").json["privacy"]["budget"]["alpha"] == 40


NO_PRIVACY_CODE = """
import sys
from shardgraph.cli.options import train
assert train.privacy_of(train.NO_PRIVACY) == (None, None)
print(sorted(name for name in sys.modules if name.startswith(("shardgraph.learn", "torch", "numpy"))))
"""


def test_without_privacy_options_no_privacy_module_is_loaded():
    done = subprocess.run([sys.executable, "-c", NO_PRIVACY_CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


OPTIONS = """
coarse = 2
fine = 1
epochs = 3
lr = 1e-2
workers = 1
no-prototypes = false
"""


def test_options_from_a_file_and_those_of_the_command_line_win(untrained: Path, ws: Path, tmp_path: Path):
    file = tmp_path / "train.toml"
    file.write_text(OPTIONS)
    trained = run("train", untrained, "--config", file, "--epochs", 2, "--json").json
    config = json.loads((untrained / "config.json").read_bytes())
    assert (config["topology"]["coarse"], config["recipe"]["epochs"], config["recipe"]["lr"]) == (2, 2, 0.01)
    other = run("train", ws, *TRAIN, "--json").json
    assert trained["groups"] == other["groups"] == 2
    assert "recipe" in refused(untrained, "train", untrained, "--config", file).err  # 3 epochs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 2", "'epochs'"),
        ("private_edges = true", "'private-edges'"),
        ("[train]\ncoarse = 2", "'train'"),
        ("json = true", "'json'"),
        ("config = 'other.toml'", "'config'"),
        ("epochs = 2.5", "a whole number, got 2.5"),
        ("epochs = true", "a whole number, got True"),
        ("lr = '0.1'", "a number"),
        ("rebuild = 1", "true or false"),
        ("safe = 'ann'", "a list of texts"),
        ("loss = 'mse'", "'mse'"),
        ("executor = 'slurm'", "'slurm'"),
        ("coarse = 0", "coarse"),
        ("coarse = ", "in TOML"),
    ],
)
def test_a_file_of_options_that_is_wrong(untrained: Path, tmp_path: Path, text: str, message: str):
    file = tmp_path / "t.toml"
    file.write_text(text)
    shown = misused(untrained, "train", untrained, "--config", file).err
    assert message in " ".join(shown.replace("│", " ").split())


def test_a_file_of_options_that_is_not_there(untrained: Path, tmp_path: Path):
    misused(untrained, "train", untrained, "--config", tmp_path / "missing.toml")
