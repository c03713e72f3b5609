"""Erasable files: whole or not at all, and the bytes before are gone. A hard link made beforehand is the witness."""

import os
import shutil
from collections import namedtuple

import pytest

from shardgraph.digest import digest
from shardgraph.errors import DamagedFile, DiskFull
from shardgraph.storage.files import (
    PIECE,
    adopt,
    check_room,
    destroy,
    destroy_with_folder,
    disk_use,
    in_background,
    read_digested,
    read_file,
    scratch_path,
    sweep,
    write_file,
)
from tests.strategies import interrupted

OLD, NEW = b"the old bytes " * 9, b"the new ones " * 7
SIZES = [0, 1, 1 << 20, (1 << 20) + 1]


@pytest.fixture
def witness(root):
    """A file in place, and another name of its bytes outside the workspace."""
    path, other = root / "folder" / "file", root.parent / "witness"
    write_file(root, path, OLD)
    os.link(path, other)
    return path, other


def scratch(root):
    return list((root / "scratch").iterdir())


@pytest.mark.parametrize("size", SIZES)
def test_a_written_file_is_there_in_full_and_nothing_else(root, size):
    raw = os.urandom(size)
    write_file(root, root / "a" / "b" / "file", raw)
    assert read_file(root / "a" / "b" / "file") == raw
    assert scratch(root) == []
    assert disk_use(root) == size


def test_a_file_is_as_private_as_asked(root):
    write_file(root, root / "key", b"k", mode=0o600)
    assert (root / "key").stat().st_mode & 0o777 == 0o600


def test_what_a_file_replaces_is_overwritten(root, witness):
    path, other = witness
    write_file(root, path, NEW)
    assert path.read_bytes() == NEW
    assert other.read_bytes() == bytes(len(OLD))
    assert scratch(root) == []


def test_an_adopted_file_replaces_too(root, witness):
    path, other = witness
    new = scratch_path(root)
    new.write_bytes(NEW)
    adopt(root, new, path)
    assert (path.read_bytes(), other.read_bytes()) == (NEW, bytes(len(OLD)))
    assert scratch(root) == []


@pytest.mark.parametrize("size", SIZES)
def test_a_destroyed_file_is_overwritten_and_gone(root, size):
    path, other = root / "folder" / "file", root / "witness"
    write_file(root, path, b"x" * size)
    os.link(path, other)
    destroy(path)
    assert not path.exists()
    assert other.read_bytes() == bytes(size)
    destroy(path)  # nothing to do


def test_a_folder_goes_with_its_last_file(root):
    for name in ("one", "two"):
        write_file(root, root / "folder" / name, b"x")
    destroy_with_folder(root / "folder" / "one")
    assert (root / "folder").exists()
    destroy_with_folder(root / "folder" / "two")
    assert not (root / "folder").exists()
    destroy_with_folder(root / "folder" / "two")  # nothing to do


def test_leftovers_are_destroyed(root):
    left, other = scratch_path(root), root.parent / "witness"
    left.write_bytes(OLD)
    os.link(left, other)
    sweep(root)
    assert scratch(root) == []
    assert other.read_bytes() == bytes(len(OLD)), "a name outside the workspace does not keep the bytes"


def test_a_replacement_interrupted_anywhere_leaves_the_old_file_or_the_new_one_and_no_third_thing(root):
    """Line by line: after `sweep` the path holds the old or the new bytes, and the old are gone if it is the new."""
    path, other = root / "folder" / "file", root.parent / "witness"
    seen = set()
    for after in range(1, 1000):
        for leftover in (path, other):
            leftover.unlink(missing_ok=True)
        write_file(root, path, OLD)
        os.link(path, other)
        stopped = interrupted(after, lambda: write_file(root, path, NEW))
        sweep(root)
        found = path.read_bytes()
        assert found in (OLD, NEW)
        assert other.read_bytes() == (OLD if found == OLD else bytes(len(OLD))), f"interrupted before line {after}"
        assert scratch(root) == []
        seen.add(found)
        if not stopped:
            break
    assert not stopped and seen == {OLD, NEW}


def test_a_missing_file_is_named(root):
    with pytest.raises(DamagedFile, match="nowhere"):
        read_file(root / "nowhere")


@pytest.mark.slow
def test_a_file_beyond_what_one_read_returns_is_read_whole(root):
    """Linux returns at most 0x7ffff000 bytes at a time."""
    with (root / "big").open("wb") as file:
        file.seek(0x7FFFF000 + 5)
        file.write(b"end")
    assert len(read_file(root / "big")) == 0x7FFFF000 + 8


def test_too_little_room_is_found_before_anything_is_written(root, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100e6, 90e6, 10e6))
    check_room(root, 10_000_000)
    with pytest.raises(DiskFull, match="20 MB free, the disk has 10 MB"):
        check_room(root, 20_000_000)


def test_what_a_file_replaces_can_be_destroyed_later_and_is_not_lost_from_sight(root, witness):
    (path, other), old = witness, []
    write_file(root, path, NEW, old=old)
    assert (path.read_bytes(), other.read_bytes()) == (NEW, OLD) and scratch(root) == old
    sweep(root)  # as the next process would, had this one ended
    assert (other.read_bytes(), scratch(root)) == (bytes(len(OLD)), [])


def test_work_that_was_left_to_a_thread_is_done_or_raises(root):
    done = []
    with in_background() as later:
        later(done.append, 1)
        later(done.append, 2)
    assert done == [1, 2]
    with pytest.raises(FileNotFoundError), in_background() as later:
        later((root / "nowhere").read_bytes)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1])
def test_bytes_are_digested_while_they_are_read(root, size):
    (root / "a").write_bytes(bytes(range(251)) * (size // 251) + bytes(size % 251))
    raw, value = read_digested(root / "a")
    assert bytes(raw) == (root / "a").read_bytes() and value == digest(raw)
