"""Streams: a million rows in bounded memory; a process that dies in the middle leaves nothing behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardgraph import Workspace

ROWS, DIM = 1_000_000, 8
# Rows are made batch by batch, so that the stream itself holds one batch; prints how much memory `add` took at most.
SCRIPT = """
import json, os, resource, sys
import numpy as np
import pyarrow as pa
import shardgraph.forget.intake.inputs
import shardgraph.embedding.readers.arrow
from shardgraph import Workspace

folder, rows, dim, dies = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "dies"
names = pa.array(["ant", "bee", "cat", "dog"])
schema = pa.schema({"id": pa.string(), "label": pa.string(), "embedding": pa.list_(pa.float32(), dim)})

def batches(count, start=0):
    for first in range(start, start + count, 10_000):
        numbers = np.random.default_rng(first).normal(size=10_000 * dim).astype(np.float32)
        ids = [f"row-{first + i:07d}" for i in range(10_000)]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), dim)
        yield pa.RecordBatch.from_arrays([ids, names.take(np.arange(10_000) % 4), vectors], schema=schema)
        if dies and first > count // 2:
            os._exit(9)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

with Workspace.create(folder, seed=1, workers=1) as ws:
    if not dies:
        ws.add(pa.RecordBatchReader.from_batches(schema, batches(70_000, start=rows)))  # what every call takes
    before = peak()
    added = ws.add(pa.RecordBatchReader.from_batches(schema, batches(rows)))
    print(json.dumps({"added": added, "grown": peak() - before}))
"""


def run(folder: Path, rows: int, dim: int, how: str) -> subprocess.CompletedProcess:
    words = [sys.executable, "-c", SCRIPT, str(folder), str(rows), str(dim), how]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_million_rows_take_the_memory_of_their_names(fast_path: Path):
    """Embeddings are in memory for one part at a time; the ids of all rows are, because they are checked together."""
    done = run(fast_path / "ws", ROWS, DIM, "lives")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["added"] == ROWS
    assert found["grown"] < 250 * ROWS, f"{found['grown'] / 2**20:.0f} MiB"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_embeddings(fast_path: Path):
    """200,000 rows of 2048 numbers: 1.6 GB of embeddings pass through."""
    done = run(fast_path / "ws", 200_000, 2048, "lives")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["added"] == 200_000 and found["grown"] < 400 << 20, f"{found['grown'] / 2**20:.0f} MiB"


@pytest.mark.slow
def test_a_process_that_dies_in_the_middle_leaves_nothing(fast_path: Path):
    done = run(fast_path / "ws", 200_000, DIM, "dies")
    assert done.returncode == 9, done.stderr
    assert [path for path in (fast_path / "ws" / "inbox").rglob("*") if path.is_file()], "parts were written"
    with Workspace(fast_path / "ws", workers=1) as ws:
        assert ws.status()["waiting"] == 0
        assert ws.add([[1.0, 2.0], [2.0, 1.0]], ["a", "b"], ids=["row-0000000", "x"]) == 2
        assert len([path for path in (ws.root / "inbox").rglob("*") if path.is_file()]) == 1
