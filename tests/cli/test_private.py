"""Private edges on the command line: train, plan, forget, status and verify say what holds, and refuse what cannot."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.cli.test_bad_input import refused

GRAPH = ("--topology", "by-source", "--safe", "ann", "--safe", "bob", "--safe", "web")
QUICK = ("--private-steps", 2, "--epochs", 2, "--loss", "bce", "--adapter", "linear")
PRIVATE = ("--private-edges", "--epsilon", 2, "--delta", "1e-20", "--budget", "paper")


@pytest.fixture
def new(tmp_path: Path, data: Path) -> Path:
    """A workspace that waits for its first training."""
    run("init", tmp_path / "ws", "--seed", 1)
    run("add", tmp_path / "ws", data / "data.npz")
    return tmp_path / "ws"


def test_a_walk_with_private_edges(new: Path):
    trained = run("train", new, *GRAPH, *QUICK, *PRIVATE, "--json").json
    assert trained["groups"] == 3 and trained["privacy"]["epsilon"] == 2 and trained["privacy"]["noise"] > 1
    plan = run("plan", new, "--sample", "s-001", "--no-twins", "--json").json["privacy"]
    assert plan["groups_charged"] == 2 and plan["after"]["removed"] == 1 and plan["before"]["removed"] == 0
    assert "groups charged" in run("plan", new, "--sample", "s-001", "--no-twins").out
    forgot = run("forget", new, "--sample", "s-001", "--json").json
    assert forgot["guarantee"].startswith("private: 3 groups") and "exact" not in json.dumps(forgot["guarantee"])
    assert run("forget", new, "--sample", "s-001", "--json").json["already_forgotten"]
    status = run("status", new, "--json").json["privacy"]
    assert status["removed"] == 1 and status["method"] == "formula/rdp"
    left = status["shards"]["bob"]
    shown = run("status", new).out
    assert f"{left['left']} of {left['of']} requests left" in shown and "vacuous in beta" in shown
    verified = run("verify", new, "--full", "--json").json
    assert verified["ok"] and "3 with private edges" in verified["checks"][-1]["detail"]
    certificate = run("certificate", new, "--json").json
    assert certificate["privacy"]["removed"] == 1
    public = (new / "public.key").read_text().strip()
    file = new / "certificates" / "000001.json"
    assert run("verify-certificate", file, "--public-key", public).code == 0
    file.write_text(file.read_text().replace('"removed": 1', '"removed": 0'))
    assert run("verify-certificate", file, "--public-key", public).code == 1
    page = new.parent / "report.html"
    assert run("report", new, "--out", page).code == 0 and "must get the same digest" not in page.read_text()


def test_a_graph_with_weights_of_its_own(new: Path, tmp_path: Path):
    graph = {"shards": ["ann", "bob", "web"], "edges": [["ann", "bob"], ["web", "bob", 2.0]]}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    terms = ("--epsilon", 2, "--delta", "1e-20", "--budget", "paper")
    assert run("train", new, "--topology", tmp_path / "graph.json", *QUICK, *terms, "--json").json["groups"] == 3
    status = run("status", new, "--json").json["privacy"]
    assert status["groups"] == 1 and list(status["shards"]) == ["bob"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--private-edges",), "need --epsilon and --delta"),
        (("--private-edges", "--epsilon", 2), "need --epsilon and --delta"),
        (("--private-edges", "--epsilon", 0, "--delta", "1e-9"), "epsilon must be a number > 0, got 0"),
        (("--private-edges", "--epsilon", -1, "--delta", "1e-9"), "epsilon must be a number > 0"),
        (("--private-edges", "--epsilon", 2, "--delta", 0.5), "delta must be below 1/n"),
        ((*PRIVATE, "--beta-budget", 1.5), "beta must be in (0, 1], got 1.5"),
        ((*PRIVATE, "--alpha-budget", 0), "alpha must be a number > 0"),
        ((*PRIVATE[:-1], "generous"), "a budget must be one of default, paper"),
        ((*PRIVATE, "--alpha-budget", 0.01), "is spent"),
        ((*PRIVATE, "--loss", "ce"), "need the loss 'bce'"),
        (PRIVATE[1:], "empty neighbourhood"),
    ],
)
def test_what_cannot_be_promised_is_refused_and_nothing_is_charged(new: Path, words: tuple, message: str):
    assert message in refused(new, "train", new, *GRAPH, *QUICK, *words).err


def test_private_edges_need_edges(new: Path):
    assert "empty neighbourhood" in refused(new, "train", new, "--coarse", 2, *QUICK, *PRIVATE).err


def test_other_terms_later_are_refused_and_another_budget_is_not(new: Path):
    assert run("train", new, *GRAPH, *QUICK, *PRIVATE).code == 0
    assert (
        "the first training fixed"
        in refused(new, "train", new, "--private-edges", "--epsilon", 1, "--delta", "1e-20").err
    )
    assert run("train", new, "--alpha-budget", 40, "--beta-budget", 0.5).code == 0
    assert run("status", new, "--json").json["privacy"]["budget"]["alpha"] == 40
