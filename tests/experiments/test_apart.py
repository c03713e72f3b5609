"""What is run by itself writes where --out says, or here: never among the records of the source tree."""

import sys
from pathlib import Path

import pytest

from experiments import ablation, private
from experiments.command import run_command
from experiments.recordfile import RecordFile
from tests.experiments import made_up


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return made_up.cached(tmp_path / "cache")


def test_ablation_writes_here(cache, monkeypatch):
    monkeypatch.setattr(ablation, "ADAPTERS", {"default": {}})
    monkeypatch.setattr(ablation, "PROTOTYPES", {})
    monkeypatch.setattr(ablation, "PRIORS", {})
    monkeypatch.setattr(sys, "argv", ["ablation", "--cache", str(cache)])
    run_command(ablation.main)
    found = RecordFile(Path("experiment-results/runs/made_up--toy.jsonl")).records
    assert [record["change"] for record in found] == ["default", ablation.FIRST]


def test_private_edges_name_what_is_in_another_cache_and_write_here(cache, monkeypatch, capsys):
    line = ["private", "--cache", str(cache), "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit) as end:
        run_command(private.main)
    assert end.value.code == 1 and "which has made_up--toy: name one (--data" in capsys.readouterr().err
    monkeypatch.setattr(private, "KS", (1,))
    monkeypatch.setattr(sys, "argv", [*line, "--data", "made_up--toy"])
    run_command(private.main)
    found = RecordFile(Path("experiment-results/runs/made_up--toy.jsonl")).records
    assert {record["rival"] for record in found} == set(private.KINDS)
    assert "made_up (toy)" in (text := capsys.readouterr().out) and "62.1" not in text
