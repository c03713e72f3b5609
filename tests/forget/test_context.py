"""Where groups run: options that make no sense are refused, and a missing package is named."""

import sys

import pytest

from shardgraph.cluster.cluster import Cluster
from shardgraph.cluster.staging import MARK, Staging
from shardgraph.errors import ConfigError, DamagedFile
from shardgraph.forget.context import Context
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.migration import migrate_catalogue, pending_migrations
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.learn.executors import ProcessExecutor, SerialExecutor
from tests.strategies import QUICK, embed, many


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "slurm"}, "executor must be one of serial, processes, ray, got 'slurm'"),
        ({"ray_address": "auto"}, "needs executor 'ray', got 'auto' without it"),
        ({"executor": "serial", "ray_storage": "s3://b"}, "needs executor 'ray', got 's3://b' without it"),
        ({"executor": "ray", "ray_address": "ray://h:1"}, "must run on a node of the cluster, got .* ray://h:1"),
    ],
)
def test_options_that_make_no_sense_are_refused_when_the_workspace_is_opened(options, words, create):
    root = create().root
    with pytest.raises(ConfigError, match=words):
        Workspace(root, **options)


def test_without_the_package_the_error_names_it_and_nothing_is_lost(create, monkeypatch):
    workspace = create(executor="ray")
    workspace.add(embed(many(12)))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"executor 'ray' needs the package ray: pip install 'shardgraph\[ray\]'"):
        workspace.train(BySource(), QUICK)
    with Workspace(workspace.root, executor="serial") as again:
        assert again.train().model_digest


def test_the_named_executor_is_used_however_few_the_groups(create):
    root = create().root
    for kind, workers, wanted, count in (
        ("serial", 8, SerialExecutor, None),
        ("processes", 3, ProcessExecutor, 3),
    ):
        context = Context(root, executor=kind, workers=workers)
        found = context.choose_executor([object()])
        context.close()
        assert isinstance(found, wanted) and getattr(found, "workers", None) == count


def test_the_address_of_the_environment_counts_where_none_is_given(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert Cluster().own
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert Cluster().address == "10.0.0.1:6379"
    assert Cluster("local").own


def test_the_next_command_deletes_copies_that_a_killed_one_left_in_storage(create, tmp_path):
    workspace = create()
    workspace.add(embed(many(12)))
    workspace.train(BySource(), QUICK)
    shard = next(path for path in (workspace.root / "shards").rglob("*") if path.is_file())
    staging = Staging(workspace.root, f"file://{tmp_path / 'bucket'}")
    staging.__enter__()  # and no end: the process was killed
    staging.put(str(shard))
    assert [path for path in (tmp_path / "bucket").rglob("*") if path.is_file()]
    workspace.repair()
    assert not [path for path in (tmp_path / "bucket").rglob("*") if path.is_file()]
    assert not (workspace.root / MARK).exists()


def test_an_empty_catalogue_is_damaged_and_no_empty_workspace(create):
    workspace = create()
    workspace.add(embed(many(12)))
    workspace.train(BySource(), QUICK)
    manifest = (workspace.root / "manifest.json").read_bytes()
    workspace.close()
    for path in workspace.root.glob("catalog.sqlite*"):
        path.write_bytes(b"") if path.suffix == ".sqlite" else path.unlink()
    for door in (Workspace, pending_migrations, migrate_catalogue):
        with pytest.raises(DamagedFile, match="is empty: restore the workspace from a backup"):
            door(workspace.root)
    assert (workspace.root / "catalog.sqlite").read_bytes() == b""
    assert (workspace.root / "manifest.json").read_bytes() == manifest


def test_a_model_in_memory_is_dropped_when_this_process_writes_after_another_one_erased(create):
    workspace = create()
    workspace.add(embed(many(12)))
    workspace.train(BySource(), QUICK)
    workspace.model()
    with Workspace(workspace.root, workers=1) as other:
        other.forget(ForgetRequest(samples=(many(12)[0].id,)))
    workspace.add(embed(many(13)[12:]))
    assert workspace.served._model is None and workspace.served._parts._groups == {}
