"""Copies in object storage last as long as a run, and not longer after a crash."""

import json

import fsspec
import pytest

from shardgraph.cluster.staging import MARK, Staging, fetch, size_of, sweep_staged
from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    place = tmp_path / "bucket" if request.param == "file" else "/bucket"
    yield f"{request.param}://{place}"
    fs = fsspec.filesystem(request.param)
    if fs.exists(str(place)):
        fs.rm(str(place), recursive=True)


def listed(url):
    fs, place = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    return list(fs.find(place)) if fs.exists(place) else []


@pytest.fixture
def shard(root):
    path = root / "shard"
    path.write_bytes(b"samples of somebody")
    return str(path)


def test_a_copy_has_the_files_bytes_and_is_made_once(root, url, shard):
    with Staging(root, url) as staging:
        copy = staging.put(shard)
        assert copy.startswith(url) and staging.put(shard) == copy and len(listed(url)) == 1
        assert fetch(copy) == b"samples of somebody" and size_of(copy) == size_of(shard) == 19
    with pytest.raises(DamagedFile, match="the run that put it there has ended"):
        fetch(copy)


def test_nothing_is_left_when_the_run_ends_or_fails(root, url, shard):
    with pytest.raises(KeyboardInterrupt), Staging(root, url) as staging:
        staging.put(shard)
        raise KeyboardInterrupt
    assert listed(url) == [] and not (root / MARK).exists()


def test_what_a_killed_run_left_is_found_without_being_told_where(root, url, shard):
    staging = Staging(root, url)
    staging.__enter__()
    staging.put(shard)
    assert len(listed(url)) == 1
    sweep_staged(root)
    assert listed(url) == [] and not (root / MARK).exists()
    sweep_staged(root)


def test_names_say_nothing_about_contents(root, url, shard):
    names = set()
    for _ in range(2):
        with Staging(root, url) as staging:
            names.add(staging.put(shard))
    assert len(names) == 2


def test_copies_that_cannot_be_deleted_are_an_error_and_stay_noted(root, tmp_path, shard, monkeypatch):
    import fsspec.implementations.local as local

    def refuse(self, *args, **kwargs):
        raise PermissionError("not yours")

    staging = Staging(root, f"file://{tmp_path / 'bucket'}")
    staging.__enter__()
    staging.put(shard)
    monkeypatch.setattr(local.LocalFileSystem, "rm", refuse)
    with pytest.raises(WorkspaceError, match=r"could not be deleted at file://.*not yours"):
        sweep_staged(root)
    assert json.loads((root / MARK).read_bytes())["url"].startswith("file://")
    monkeypatch.undo()
    sweep_staged(root)
    assert not (root / MARK).exists()


def test_storage_that_nobody_knows_is_refused_before_anything_is_noted(root):
    with pytest.raises(ConfigError, match="must be a URL"):
        Staging(root, "/bucket")
    with pytest.raises(ConfigError, match="cannot be reached"), Staging(root, "nonsense://bucket"):
        pass
    assert not (root / MARK).exists()
