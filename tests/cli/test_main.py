"""Help: every command and every option has a help text and is in docs/cli.md, and `--help` loads no heavy module."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from shardgraph import __version__
from shardgraph.cli.main import app
from tests.cli.conftest import run

GROUP = typer.main.get_command(app)
COMMANDS = sorted(GROUP.commands)  # type: ignore[attr-defined]
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_commands_that_scripts_rely_on_are_there():
    wanted = (
        "init add train evaluate predict plan forget repair verify status demo certificate verify-certificate migrate"
    )
    assert set(wanted.split()) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_help(name: str):
    command = GROUP.commands[name]  # type: ignore[attr-defined]
    assert command.help and command.help.strip().endswith(".")
    bare = [option.name for option in command.params if not getattr(option, "help", None)]
    assert not bare
    assert any("--json" in option.opts for option in command.params)
    shown = run(name, "--help")
    assert shown.code == 0 and name in shown.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_stands_in_the_docs(name: str):
    words = DOCS.read_text()
    assert f"**`{name}" in words
    shared = {"--workers", "--json"}
    options = {opt for p in GROUP.commands[name].params for opt in p.opts if opt.startswith("--")}  # type: ignore[attr-defined]
    assert not [option for option in options - shared if option not in words]


def test_version():
    assert run("--version").out == f"{__version__}\n"


def test_completion_is_offered():
    assert "--install-completion" in run("--help").out


def test_help_and_version_load_no_torch():
    code = (
        "import sys\n"
        "from shardgraph.cli.main import app\n"
        "try:\n    app(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'numpy', 'sklearn', 'ray', 'sqlite3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_usage_errors_exit_with_2():
    assert run("forget").code == 2
    assert run("nonsense").code == 2
    assert run("status", "ws", "--nonsense").code == 2
