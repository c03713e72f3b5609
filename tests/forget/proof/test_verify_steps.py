"""What verification finds and leaves at its edges: files of units that are gone, groups too many, a busy lock."""

import threading
from dataclasses import replace

import pytest

from shardgraph.errors import VerificationError
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.proof import verify
from shardgraph.forget.proof.verify import compare_groups, find_problems, rebuild_of
from shardgraph.forget.workspace import Workspace
from tests.strategies import many

ROWS = many(18)


def scratch(workspace):
    return list((workspace.root / "scratch").iterdir())


def test_the_file_of_a_unit_that_is_gone_from_the_catalogue_is_found(workspace):
    context, path = workspace.context, workspace.context.store.path("shard:zed")
    assert find_problems(context, ["shard:ann", "shard:zed"], ["ann"]) == ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(workspace.context.store.path("shard:ann").read_bytes())
    assert find_problems(context, ["shard:ann", "shard:zed"], ["ann"]).startswith(
        "samples: the file of shard:zed is still there"
    )


def test_a_group_that_the_samples_do_not_give_is_found(workspace):
    manifest = Manifest.load(workspace.root)
    replace(manifest, groups={**manifest.groups, "zed": manifest.groups["ann"]}).save(workspace.root)
    with pytest.raises(VerificationError, match="1 groups are served that the retained samples do not give"):
        rebuild_of(workspace.context)
    last = workspace.verify(full=True).checks[-1]
    assert not last.ok and last.compared and "do not give" in last.detail


class Stops:
    """An executor that ends with an error after its first result."""

    def __init__(self, inner):
        self.inner = inner

    def run(self, tasks):
        for result in self.inner.run(tasks):
            yield result
            raise RuntimeError("the machine stopped")


def test_a_comparison_that_stops_midway_leaves_no_group_behind(workspace, monkeypatch):
    context, choose = workspace.context, workspace.context.choose_executor
    monkeypatch.setattr(context, "choose_executor", lambda tasks: Stops(choose(tasks)))
    with pytest.raises(RuntimeError, match="stopped"):
        compare_groups(context, lambda: rebuild_of(context))
    assert scratch(workspace) == []


def test_a_lock_that_is_held_for_a_while_is_waited_for(workspace, monkeypatch):
    monkeypatch.setattr(verify, "PAUSE", 0.05)

    def take():
        with writing(workspace.context):
            return rebuild_of(workspace.context)

    with Workspace(workspace.root, workers=1) as other:
        other.context.lock.__enter__()
        threading.Timer(1, other.context.lock.release).start()
        found = compare_groups(workspace.context, take)
    assert found.ok and found.detail == "3 groups, equal bytes"
