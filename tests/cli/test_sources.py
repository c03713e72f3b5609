"""What is known about sources: kept, shown, and gone with the source."""

from pathlib import Path

from tests.cli.conftest import run


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
    run("forget", ws, "--sample", "s-003")
    assert run("status", ws, "--json").json["sources"]["ann"]["owner"]
    run("forget", ws, "--source", "ann")
    assert "ann" not in run("status", ws, "--json").json["sources"]
    assert not [path for path in ws.rglob("*") if path.is_file() and b"findable owner" in path.read_bytes()]


def test_it_can_be_cleared_alone(ws: Path):
    run("source", ws, "bob", "--owner", "Bob")
    assert run("source", ws, "bob", "--clear", "--json").json["cleared"]
    assert run("status", ws, "--json").json["sources"]["bob"]["owner"] == ""
    assert run("source", ws, "bob", "--clear", "--owner", "Bob").code == 2


def test_what_makes_no_sense_is_refused(ws: Path):
    assert run("source", ws, "nobody", "--owner", "x").code == 1
    assert run("source", ws, "ann", "--rate", 2).code == 1
