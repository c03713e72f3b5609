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
TRAIN_VALUES = [
    ("--coarse", 0),
    ("--coarse", -1),
    ("--fine", 0),
    ("--coarse", 2, "--assignment", "fair"),
    ("--topology", "ring"),
    ("--topology", "random", "--shards", 3),
    ("--topology", "random", "--shards", -3, "--degree", 1),
    ("--topology", "complete", "--shards", 0),
    ("--topology", "by-source", "--coarse", 3),
    ("--topology", "missing.json"),
    ("--recipe", "secret"),
    ("--loss", "mse"),
    ("--adapter", "lora"),
    ("--projection", "none"),
    ("--method", "third"),
    ("--epochs", 0),
    ("--epochs", "many"),
    ("--batch", 0),
    ("--heads", -1),
    ("--lr", -1),
    ("--lr", "nan"),
    ("--expansion", -1),
    ("--shrinkage", 2),
    ("--mixing", 2),
    ("--device", "abacus"),
    ("--private-edges",),
    ("--epsilon", 0, "--delta", "1e-9"),
    ("--epsilon", 2, "--delta", 2),
    ("--budget", "generous"),
    ("--alpha-budget", 0),
    ("--beta-budget", 1.5),
    ("--epsilon", 2, "--delta", "1e-9", "--private-steps", 0),
    ("--epsilon", 2, "--delta", "1e-9", "--private-rate", 0),
    ("--epsilon", 2, "--delta", "1e-9", "--private-lr", 0),
    ("--epsilon", 2, "--delta", "1e-9", "--clip", -1),
]
INIT_VALUES = [
    ("--dtype", "int8"),
    ("--classes", "a,,b"),
    ("--backbone", "brain"),
    ("--seed", -1),
    ("--size", 0),
    ("--device", "abacus"),
]
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


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)])
def test_flags_show_no_type(words: tuple[str, ...]):
    shown = run(*words, "--help").out
    assert "--help" in shown and "bool" not in shown.lower()


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


@pytest.mark.parametrize(
    "words",
    [
        *[("train", "ws", *flags) for flags in TRAIN_VALUES],
        *[(name, "ws", "--executor", "slurm") for name in ("train", "repair", "verify")],
        ("add", "ws", "data.npz", "--executor", "slurm"),
        ("forget", "ws", "--yes", "--sample", "a", "--executor", "slurm"),
        *[("repair", "ws", *flags) for flags in (("--workers", 0), ("--gpu-memory", 0), ("--gpu-memory", "nan"))],
        *[("repair", "ws", *flags) for flags in (("--ray-address", "auto"), ("--ray-storage", "s3://a"))],
        *[("init", "ws", *flags) for flags in INIT_VALUES],
        *[("twins", "ws", "--threshold", value) for value in (0, -1, 1.5, "nan", "near")],
        *[("plan", "ws", "--sample", "a", "--threshold", value) for value in (0, 2)],
        *[("source", "ws", "ann", "--rate", value) for value in (-0.1, 1.1, "nan")],
        *[("predict", "ws", "data.npz", *flags) for flags in (("--top-k", 0), ("--out", "p.xlsx"), ("--column", "x"))],
        *[("serve", "ws", *flags) for flags in (("--port", 70000), ("--grace", -1), ("--grace", "nan"))],
        ("serve", "ws", "--device", "abacus"),
        ("token", "ws", "ops", "--role", "king"),
        ("certificate", "ws", 0),
        ("add", "ws", "data.npz", "--column", "nonsense"),
        ("experiment", "nonsense"),
        ("experiment", "second", "--quick", "--cache", "somewhere"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_wrong_values_of_options_exit_with_2(
    words: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for more in ((), ("--json",)):
        ran = run(*words, *more)
        assert ran.code == 2 and ran.out == "" and "Usage" in ran.err, ran
    assert list(tmp_path.iterdir()) == []
