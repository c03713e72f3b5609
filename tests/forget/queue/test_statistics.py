"""What the ledger keeps of past models' accuracy, and that it can be dropped as the docs say."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.statistics import measure, measurements
from shardgraph.forget.workspace import Workspace
from tests.strategies import RING, ROWS, all_bytes

DOCS = Path(__file__).parents[3] / "docs" / "guarantees.md"


def measured(workspace):
    measure(workspace.context.catalogue, workspace.context.keys, workspace.model().digest, workspace.evaluate)


def test_measurements_survive_a_forget_and_leave_no_byte_when_dropped_as_the_docs_say(trained):
    with trained(RING) as workspace:
        measured(workspace)
        workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
        measured(workspace)
        assert len(measurements(workspace.context.catalogue)) == 2
        root = workspace.root
    assert any(b'"accuracy"' in raw for raw in all_bytes(root).values())
    (sql,) = re.findall(r'sqlite3 ws/catalog.sqlite "(.*)"', DOCS.read_text())
    with closing(sqlite3.connect(root / "catalog.sqlite")) as db:
        db.executescript(sql)
    assert not any(b'"accuracy"' in raw for raw in all_bytes(root).values())
    with Workspace(root) as workspace:
        assert measurements(workspace.context.catalogue) == []
        assert workspace.verify(full=True).ok
        measured(workspace)
        assert len(measurements(workspace.context.catalogue)) == 1
