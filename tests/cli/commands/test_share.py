"""`grant`, `revoke`, `rights` and `provision`."""

from pathlib import Path

import pytest

from tests.cli.conftest import TRAIN, run


@pytest.fixture
def shared(untrained: Path) -> Path:
    """A workspace in which equal cliques of all sources learn together."""
    done = run("train", untrained, "--topology", "bilevel-across", *TRAIN)
    assert done.code == 0, done.err
    return untrained


def test_a_right_is_previewed_given_listed_and_taken(shared: Path):
    before = run("plan", shared, "--grant", "acme", "--source", "ann", "--json").json
    assert run("rights", shared, "--json").json == {"rights": []}, "a preview changes nothing"
    given = run("grant", shared, "acme", "--source", "ann", "--json").json
    assert given == before
    assert given["sources"] == ["ann"] and given["provision"] is False
    assert given["reach"]["share_of_samples"] == pytest.approx(1 / 3)
    assert given["reach"]["adapters"] == 0 and given["reach"]["lacking"] > 0
    assert run("rights", shared, "--json").json["rights"] == [given]
    shown = run("rights", shared).out
    assert "acme" in shown and "source ann" in shown and "shardgraph provision" in shown
    assert run("revoke", shared, "acme", "--json").json["sources"] == []
    assert "no rights" in run("rights", shared).err


def test_predictions_and_accuracy_by_the_model_of_a_right(shared: Path, data: Path):
    run("grant", shared, "all", "--source", "ann", "--source", "bob", "--source", "web")
    run("grant", shared, "acme", "--source", "ann")
    whole = run("predict", shared, data / "new.npz", "--json").json
    assert run("predict", shared, data / "new.npz", "--as", "all", "--json").json == whole
    part = run("predict", shared, data / "new.npz", "--as", "acme", "--json").json
    assert part["model_digest"] != whole["model_digest"] and len(part["predictions"]) == 3
    evaluated = run("evaluate", shared, "--as", "acme", "--json").json
    assert evaluated["model_digest"] == part["model_digest"] and evaluated["samples"] == 12
    run("revoke", shared, "acme")
    assert run("predict", shared, data / "new.npz", "--as", "acme").code == 1


def test_provisioning_trains_what_is_lacking_and_a_forget_reaches_it(shared: Path):
    run("grant", shared, "acme", "--source", "ann", "--source", "bob")
    dropped = run("evaluate", shared, "--as", "acme", "--json").json["model_digest"]
    done = run("provision", shared, "acme", "--json").json
    assert done["trained"] == 2 and done["reach"]["lacking"] == 0 and done["seconds"] > 0
    assert done["model_digest"] != dropped
    assert "2 groups" in run("rights", shared).out
    assert run("provision", shared, "acme", "--json").json["trained"] == 0
    run("forget", shared, "--yes", "--sample", "s-001", "--yes")
    shown = run("certificate", shared, "--json").json
    assert shown["provisioned"] == 1
    assert "provisioned groups" in run("certificate", shared).out
    after = run("rights", shared, "--json").json["rights"][0]
    assert after["reach"]["lacking"] == 0
    checked = run("verify", shared, "--full", "--json").json
    assert checked["ok"] and {"rights", "rights rebuilt"} <= {check["name"] for check in checked["checks"]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("grant", "acme"), "at least one source or shard"),
        (("grant", "acme", "--source", "nobody"), "'nobody'"),
        (("grant", "acme", "--shard", "nowhere"), "'nowhere'"),
        (("revoke", "acme"), "'acme' has no right here"),
        (("provision", "acme"), "'acme' has no right here"),
        (("evaluate", "--as", "acme"), "'acme' has no right here"),
        (("plan", "--grant", "acme", "--source", "nobody"), "'nobody'"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(ws: Path, words: tuple[str, ...], told: str):
    command, *rest = words
    done = run(command, ws, *rest)
    assert done.code == 1 and told in done.err and done.err.count("\n") == 1
    assert run(command, ws, *rest, "--json").json["kind"] in ("InputError", "UnknownConsumer")


def test_a_right_without_data_left_is_told(ws: Path):
    run("grant", ws, "acme", "--source", "ann")
    run("forget", ws, "--yes", "--source", "ann", "--yes")
    done = run("evaluate", ws, "--as", "acme")
    assert done.code == 1 and "nothing is left to serve" in done.err


def test_a_grant_is_previewed_alone(ws: Path):
    assert run("plan", ws, "--grant", "acme", "--sample", "s-001").code == 2


def test_mixed_shards_keep_no_adapter(ws: Path):
    reach = run("grant", ws, "acme", "--source", "ann", "--source", "bob", "--json").json["reach"]
    assert reach["shards"] == reach["adapters"] == 0 and reach["samples"] > 0
