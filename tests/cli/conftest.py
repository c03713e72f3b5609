"""Commands run in this process, on small arrays and copies of one workspace."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from shardgraph.cli.main import app

CLASSES = ("ant", "bee", "cat", "dog")
COUNT, TOKENS, DIM = 60, 2, 8
TRAIN = ("--coarse", 2, "--fine", 1, "--epochs", 2)  # how `ws` was trained


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON value on one line."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


Run = Callable[..., Ran]


def run(*words: object, stdin: str | None = None) -> Ran:
    """Run `shardgraph WORDS` here."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    return Ran(result.exit_code, result.stdout, result.stderr)


def arrays(count: int = COUNT, start: int = 0) -> dict[str, np.ndarray]:
    """Samples s-000, s-001, ...: classes and sources in turn, every fifth held out."""
    rng = np.random.default_rng(start)
    numbers = np.arange(start, start + count)
    centres = 2 * np.eye(len(CLASSES), DIM)[numbers % len(CLASSES)][:, None]
    return {
        "tokens": (rng.normal(size=(count, TOKENS, DIM)) + centres).astype(np.float32),
        "labels": np.array([CLASSES[i % len(CLASSES)] for i in numbers]),
        "ids": np.array([f"s-{i:03d}" for i in numbers]),
        "sources": np.array([("ann", "bob", "web")[i % 3] for i in numbers]),
        "subjects": np.array([f"p{i // 4}" for i in numbers]),
        "split": np.array(["test" if i % 5 == 0 else "train" for i in numbers]),
    }


def state(ws: Path) -> dict[str, Any]:
    """All of a workspace that may not change: its files, and the catalogue's rows."""
    paths = [path for path in ws.rglob("*") if path.is_file() and path.stem not in ("catalog", "lock")]
    files = {str(path.relative_to(ws)): path.read_bytes() for path in paths}
    with sqlite3.connect(ws / "catalog.sqlite") as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return files | {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


def refused(ws: Path, *words: object) -> Ran:
    """The command's failure, after a look that nothing changed; with and without --json."""
    before = state(ws)
    ran, machine = run(*words), run(*words, "--json")
    assert state(ws) == before
    assert ran.code == machine.code == 1
    assert ran.err.startswith("error: ") and len(ran.err.splitlines()) == 1 and "Traceback" not in ran.err
    assert machine.json["error"] in ran.err and machine.json["kind"] and not machine.err
    return ran


def misused(ws: Path, *words: object) -> Ran:
    """The refusal of a wrong command line, after a look that nothing changed; with and without --json."""
    before = state(ws)
    ran, machine = run(*words), run(*words, "--json")
    assert state(ws) == before
    assert ran.code == machine.code == 2 and ran.out == machine.out == "" and "Usage" in ran.err
    return ran


def saved(folder: Path, **changes: Any) -> Path:
    """An array file of three new samples with some arrays changed; None leaves one out."""
    columns = arrays(3, start=100) | changes
    path = folder / "bad.npz"
    np.savez(path, **{name: column for name, column in columns.items() if column is not None})
    return path


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data.npz, more.npz (ten other samples) and new.npz (no labels)."""
    folder = tmp_path_factory.mktemp("data")
    np.savez(folder / "data.npz", **arrays())
    np.savez(folder / "more.npz", **arrays(10, start=COUNT))
    np.savez(folder / "new.npz", tokens=arrays()["tokens"][:3], ids=np.array(["n1", "n2", "n3"]))
    return folder


@pytest.fixture(scope="session")
def _untrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untrained") / "ws"
    assert run("init", folder, "--seed", 1).code == 0
    assert run("add", folder, data / "data.npz").code == 0
    return folder


@pytest.fixture(scope="session")
def _trained(_untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(_untrained, tmp_path_factory.mktemp("trained") / "ws"))
    assert run("train", folder, *TRAIN).code == 0
    return folder


@pytest.fixture
def untrained(_untrained: Path, tmp_path: Path) -> Path:
    """A workspace of one's own with the samples of data.npz in the inbox."""
    return Path(shutil.copytree(_untrained, tmp_path / "untrained"))


@pytest.fixture
def ws(_trained: Path, tmp_path: Path) -> Path:
    """A trained workspace of one's own."""
    return Path(shutil.copytree(_trained, tmp_path / "ws"))
