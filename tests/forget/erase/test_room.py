"""A disk with little room: a forget is refused before anything changes, or it goes through."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shardgraph
from shardgraph.graph import BySource
from tests.strategies import LABELS, QUICK, embed, many

HOUSE = Path(__file__).parents[3]
ROWS = [*many(24), *many(6, split="test")]
MB = 1_000_000


def with_own_mounts() -> list[str]:
    """The words that start a command with mounts of its own; skips the test where that is not possible."""
    words = ["unshare", "-rm"]
    allowed = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if not shutil.which("unshare") or subprocess.run([*words, *allowed], capture_output=True).returncode:
        pytest.skip("needs Linux and the right to mount a disk in a namespace of its own")
    return words


def test_a_forget_is_refused_first_or_goes_through_however_full_the_disk_is(create, tmp_path):
    words = with_own_mounts()
    with create("base", classes=LABELS) as workspace:
        workspace.add(embed(ROWS, dim=70))
        workspace.train(BySource(), QUICK)
    size = (workspace.root / "prototypes.safetensors").stat().st_size
    assert size > 4 * MB, "most of what a forget writes"
    frees = [MB, 2 * MB, size, size + MB, size + 2 * MB, 3 * size]
    words += [sys.executable, "-m", "tests.forget.small_disk", str(workspace.root), str(tmp_path), ROWS[0].id]
    path = f"{Path(shardgraph.__file__).parents[1]}{os.pathsep}{HOUSE}"
    done = subprocess.run(
        [*words, *map(str, frees)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
        cwd=HOUSE,
        text=True,
        check=True,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    for one in results:
        assert one["works"] and one["ok"], one
        assert one["changed"] != bool(one["said"]), one
        assert one["done"] == ({} if one["said"] else {"done": 1}), one
        assert not one["said"] or "MB free" in one["said"], one
    refused = [bool(one["said"]) for one in results]
    assert refused == sorted(refused, reverse=True) and len(set(refused)) == 2, "too little is refused, enough is not"
