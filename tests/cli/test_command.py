"""How a command runs: option groups, errors in one line, exit codes."""

import inspect
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from shardgraph.cli.command import as_command
from shardgraph.cli.main import app
from shardgraph.cli.options.shared import Json, Workers
from shardgraph.storage.files import WriteLock
from tests.cli.conftest import refused, run


@dataclass(frozen=True)
class Pair:
    workers: Workers = None
    as_json: Json = False


def act(name: str, pair: Pair = Pair(), last: str = "z") -> None:  # noqa: B008 (frozen)
    print(name, pair, last)


def test_the_fields_of_a_group_replace_it_in_the_signature():
    assert list(inspect.signature(as_command(act)).parameters) == ["name", "workers", "as_json", "last"]


def test_a_command_gets_a_group_with_the_given_values_and_the_defaults_of_the_rest():
    small = typer.Typer()
    small.command()(as_command(act))
    assert CliRunner().invoke(small, ["a", "--workers", "2"]).stdout == f"a {Pair(workers=2)} z\n"
    assert CliRunner().invoke(small, ["a", "--json", "--last", "y"]).stdout == f"a {Pair(as_json=True)} y\n"
    assert CliRunner().invoke(small, ["a", "--workers", "0"]).exit_code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("flags", [("--json",), ()], ids=["json", "words"])
def test_an_output_that_takes_nothing_is_one_line(ws: Path, flags: tuple[str, ...]):
    words = [sys.executable, "-m", "shardgraph.cli.main", "status", str(ws), *flags]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr == "error: No space left on device: standard output\n"


def test_windows_is_refused_in_words(tmp_path: Path):
    code = "import sys; sys.modules['fcntl'] = None; from shardgraph.cli.main import main; main()"
    words = [sys.executable, "-c", code, "status", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and "Windows" in done.stderr and "Traceback" not in done.stderr


def test_an_unexpected_error_is_one_line_unless_debugged(ws: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: 1 / 0)
    short = run("forget", ws, "--yes", "--sample", "s-001")
    assert short.code == 1 and "ZeroDivisionError" in short.err and len(short.err.splitlines()) == 1
    monkeypatch.setenv("SHARDGRAPH_DEBUG", "1")
    raised = CliRunner().invoke(app, ["forget", str(ws), "--yes", "--sample", "s-001"]).exception
    assert isinstance(raised, ZeroDivisionError)


def test_a_workspace_of_a_newer_version_or_none(ws: Path, tmp_path: Path):
    assert "init" in run("status", tmp_path / "nowhere").err
    assert "no workspace" in run("status", Path(__file__)).err
    config = ws / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"format": 99}))
    assert "99" in refused(ws, "status", ws).err
    config.write_text("[]")
    assert "config.json" in refused(ws, "status", ws).err


def test_a_second_writer(ws: Path, data: Path):
    with WriteLock(ws):
        for words in (("forget", ws, "--yes", "--sample", "s-001"), ("add", ws, data / "more.npz"), ("train", ws)):
            assert "another process" in refused(ws, *words).err
        assert run("status", ws).code == run("evaluate", ws).code == 0  # readers need no lock
