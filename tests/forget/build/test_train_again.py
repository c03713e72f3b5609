"""A later training, and what stands beside it: readers, verify, marks and terms."""

import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from shardgraph.errors import UnknownSample
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.proof import verify as verifying
from shardgraph.forget.workspace import Workspace
from shardgraph.storage import files
from tests.strategies import LABELS, embed, interrupted, many

ROWS = many(18)
LATE = [row._replace(id=f"latecomer-{i}") for i, row in enumerate(many(4))]


def test_a_model_can_be_loaded_anew_whenever_a_later_training_is_interrupted(workspace, fast_path):
    workspace.add(embed(LATE))
    workspace.close()
    stops = 0
    for after in count(1, 83):
        root = fast_path / f"copy{after}"
        shutil.copytree(workspace.root, root)
        with Workspace(root, workers=1) as copy:
            stopped = interrupted(after, copy.train)
        with Workspace(root, workers=1) as reader:
            reader.resume()
            assert reader.model().classes == tuple(sorted(LABELS)), f"interrupted before line {after}"
            verification = reader.verify()
            assert verification.ok, f"interrupted before line {after}: {verification}"
        shutil.rmtree(root)
        stops += stopped
        if not stopped:
            break
    assert stops > 10


def test_groups_that_are_replaced_leave_the_manifest_before_their_files_change(workspace):
    workspace.add(embed(LATE))
    seen = []

    def progress(what, done, of):
        if what == "training":
            with Workspace(workspace.root) as reader:
                seen.append((len(Manifest.load(workspace.root).groups), len(reader.model().average)))

    workspace.context.progress = progress
    workspace.train()
    assert len(seen) >= 3 and seen[0][0] < 3, "stale groups are out of service while they are rebuilt"
    assert len(Manifest.load(workspace.root).groups) == 3


def test_a_forget_gets_in_while_verify_rebuilds_everything(workspace, monkeypatch):
    forgot = []

    def compared(context, rebuild):
        if not forgot:
            with Workspace(workspace.root, workers=1) as other:
                forgot.append(other.forget(ForgetRequest(samples=(ROWS[0].id,))))
        return original(context, rebuild)

    original = verifying._compared
    monkeypatch.setattr(verifying, "_compared", compared)
    verification = workspace.verify(full=True)
    assert forgot and verification.ok, verification
    assert list((workspace.root / "scratch").iterdir()) == []


@pytest.mark.parametrize("kind", ["sources", "subjects", "labels", "shards"])
def test_what_was_forgotten_one_by_one_is_known_as_forgotten(workspace, kind):
    column = {"sources": "source", "subjects": "subject", "labels": "label", "shards": "source"}[kind]
    name = getattr(ROWS[1], column) or "p1"
    ids = [row.id for row in ROWS if getattr(row, column) == name]
    for sample in ids[:-1]:
        workspace.forget(ForgetRequest(samples=(sample,)))
    assert workspace.plan(ForgetRequest(**{kind: (name,)})).rows
    last = workspace.forget(ForgetRequest(samples=(ids[-1],)))
    assert workspace.forget(ForgetRequest(**{kind: (name,)})) == last
    with pytest.raises(UnknownSample):
        workspace.forget(ForgetRequest(**{kind: ("somebody else",)}))


def test_the_terms_of_a_source_leave_with_its_last_sample(workspace):
    workspace.sources.describe("ann", owner="Ann of the hill", rate=0.1)
    ids = [row.id for row in ROWS if row.source == "ann"]
    workspace.forget(ForgetRequest(samples=tuple(ids[:-1])))
    assert workspace.sources.terms()["ann"].owner == "Ann of the hill"
    workspace.forget(ForgetRequest(samples=(ids[-1],)))
    assert "ann" not in workspace.sources.terms()
    assert b"Ann of the hill" not in (workspace.root / "catalog.sqlite").read_bytes()


def test_the_entry_of_a_new_folder_is_synced_too(root, monkeypatch):
    synced = []

    def fsync(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        original(descriptor)

    original = os.fsync
    monkeypatch.setattr(files.os, "fsync", fsync)
    files.write_file(root, root / "shards" / "ab" / "file", b"x")
    assert {str(root), str(root / "shards"), str(root / "shards" / "ab")} <= set(synced)
