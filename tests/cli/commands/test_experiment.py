"""The experiments from the command line, on records that are there already."""

import hashlib
import json
from pathlib import Path

import pytest

from experiments import page, runs
from tests.cli.conftest import run
from tests.experiments import made_up


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _committed() -> str:
    files = sorted(path for path in page.RESULTS.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()


def test_all_on_a_cache_shows_what_has_records_and_names_the_rest(here: Path):
    before = _committed()
    made_up.recorded(Path("experiment-results/runs"))
    done = run("experiment", "all", "--cache", made_up.cached(here / "cache"), "--json")
    assert done.code == 0, done.err
    shown = {one["experiment"]: one["files"] for one in done.json["shown"]}
    assert set(shown) == set(page.EXPERIMENTS) - {"private", "ablation", "domains"}
    assert all(Path(file).is_relative_to("experiment-results") for files in shown.values() for file in files)
    assert "several sources" in done.json["left_out"]["domains"]
    assert "experiments.private" in done.json["left_out"]["private"] and "private is left out" in done.err
    table = json.loads(Path("experiment-results/second/second.json").read_text())["tables"][0]
    assert [row[0] for row in table["rows"]] == ["made_up (toy)"]
    assert _committed() == before


def test_one_is_written_though_another_cannot_be(here: Path):
    made_up.recorded(here / "out" / "runs")
    (here / "out" / "graphs").write_text("in the way")
    assert run("experiment", "all", "--out", here / "out").code == 1
    assert (here / "out" / "second" / "second.json").exists()


@pytest.mark.parametrize("name", ["ablation", "private"])
def test_an_experiment_without_records_is_an_error_that_says_what_writes_them(here: Path, name: str):
    made_up.recorded(here / "out" / "runs")
    done = run("experiment", name, "--out", here / "out")
    assert done.code == 1 and f"`python -m experiments.{name} --cache CACHE" in done.err
    assert run("experiment", name, "--cache", here / "cache").code == 1


def test_a_cache_that_is_not_there_is_told_and_nothing_made(here: Path):
    done = run("experiment", "second", "--cache", "nowhere", "--out", "out")
    assert done.code == 1 and "'nowhere' does not exist" in done.err and not Path("out").exists()


def test_a_torn_record_is_no_hindrance(here: Path):
    made_up.recorded(here / "out" / "runs")
    with (here / "out" / "runs" / "made_up--toy.jsonl").open("a") as file:
        file.write('{"rival": "SA')
    assert run("experiment", "second", "--out", here / "out", "--json").json["experiment"] == "second"


def test_ctrl_c_tells_what_is_kept(here: Path, monkeypatch: pytest.MonkeyPatch):
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "mean_logits", stopped)
    quick = run("experiment", "second", "--quick")
    assert quick.code == 130 and "not kept" in quick.err and "nothing is lost" not in quick.err
    cached = run("experiment", "second", "--cache", made_up.cached(here / "cache"))
    assert cached.code == 130 and "continues" in cached.err
    assert [record["rival"] for record in map(json.loads, _written())] == ["Prototypes", "Second order"]


def _written() -> list[str]:
    return Path("experiment-results/runs/made_up--toy.jsonl").read_text().splitlines()
