"""What is said to be there outlasts a power cut: a file is synced before its rename, its folder after."""

import os
from pathlib import Path

import pytest

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.storage.files import write_file
from shardgraph.storage.tables import erasures, requests
from tests.strategies import many


def named(descriptor):
    """The path of an open file."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


@pytest.fixture
def steps(monkeypatch):
    """The syncs and renames of this process, in order, by the paths that they concern."""
    done, fsync, rename = [], os.fsync, os.replace

    def synced(descriptor):
        done.append(("sync", named(descriptor)))
        fsync(descriptor)

    def renamed(old, new):
        done.append(("rename", str(old), str(new)))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    return done


def test_a_new_file_is_synced_then_named_then_its_folder_is_synced(root, steps):
    path = root / "a" / "b" / "file"
    write_file(root, path, b"bytes")
    new = steps[0][1]
    assert new.startswith(str(root / "scratch"))
    made = [("sync", str(root / "a")), ("sync", str(root))]  # the folders that hold new ones
    assert steps == [("sync", new), *made, ("rename", new, str(path)), ("sync", str(path.parent))]


def test_a_replaced_file_is_overwritten_only_when_the_new_one_is_there_to_stay(root, steps):
    path = root / "file"
    write_file(root, path, b"old")
    steps.clear()
    write_file(root, path, b"new")
    (_, new), rename, folder, (kind, old) = steps
    assert (rename, folder) == (("rename", new, str(path)), ("sync", str(root)))
    assert kind == "sync" and old.startswith(str(root / "scratch")) and old != new


@pytest.mark.parametrize("through", ["the queue", "a command"])
def test_the_record_is_synced_before_the_request_is_accepted(trained, fast_path, monkeypatch, through):
    rows = many(18)
    workspace, record = trained(BySource(), rows), fast_path / "record.jsonl"
    workspace.queue.keep_log(record)
    request, seen, fsync = ForgetRequest(samples=(rows[0].id,)), [], os.fsync
    by_state = requests.count_requests_by_state if through == "the queue" else erasures.count_erasures_by_state
    with Workspace(workspace.root) as other:

        def synced(descriptor):
            fsync(descriptor)
            if named(descriptor) == str(record):
                whole = record.read_bytes().count(b'"request"')
                seen.append((whole, by_state(other.context.catalogue)))

        monkeypatch.setattr(os, "fsync", synced)
        workspace.queue.submit(Submission(request)) if through == "the queue" else workspace.forget(request)
        before, after = seen
        assert before == (1, {}), "written and synced while nobody could see the request as accepted"
        assert after[0] == 2 and sum(after[1].values()) == 1, "then, once it is accepted, the record says so"
