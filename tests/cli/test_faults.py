"""The disk fails under the catalogue: every command says what happened and what to do, and the next one works."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import run

HOUSE = Path(__file__).parents[2]
COMMANDS = [["status", "WS"], ["forget", "WS", "--yes", "--sample", "s-001"], ["verify", "WS"]]
ADVICE = ("check the disk", "check its owner", "try again", "MB free", "free some")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that lets one call of the system fail."""
    if not (compiler := shutil.which("cc")) or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    path = tmp_path_factory.mktemp("faults") / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


def let_fail(library: Path, base: Path, folder: Path, count: int) -> None:
    """Run every command `count` times, each time with another failing call, and check what it says."""
    codes = [errno.EIO, errno.ENOSPC, errno.EACCES]
    order = json.dumps({"commands": COMMANDS, "codes": codes, "count": count})
    words = [sys.executable, "-m", "tests.cli.faulty", str(base), str(folder)]
    environment = os.environ | {"LD_PRELOAD": str(library)}
    done = subprocess.run(words, input=order, stdout=subprocess.PIPE, env=environment, cwd=HOUSE, text=True, check=True)
    results = json.loads(done.stdout)
    failed = [one for one in results if one["code"]]
    assert len(failed) > len(results) // 2, "most of the calls matter"
    for one in failed:
        assert "unexpected" not in one["said"] and "Traceback" not in one["said"], one
        assert any(advice in one["said"] for advice in ADVICE), one
    for one in results:
        assert one["after"]["code"] == 0, one


def test_no_failure_of_the_disk_is_unexpected(library: Path, ws: Path, fast_path: Path):
    let_fail(library, ws, fast_path, 8)


@pytest.mark.slow
def test_no_failure_of_the_disk_is_unexpected_wherever_it_comes(library: Path, ws: Path, fast_path: Path):
    let_fail(library, ws, fast_path, 60)


def test_a_damaged_page_of_the_catalogue_is_called_that(ws: Path):
    path = ws / "catalog.sqlite"
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"x" * (len(raw) - 4096)  # the first page holds the list of tables
    path.write_bytes(raw)
    for words in (["status", ws], ["forget", ws, "--yes", "--sample", "s-001"]):
        done = run(*words)
        assert done.code == 1 and "catalog.sqlite" in done.err and "backup" in done.err, done
