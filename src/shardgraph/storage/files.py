"""Files of a workspace: written completely or not at all, overwritten before they are removed; and the write lock.

A new file is written in `scratch/`, synced and renamed into place. The file that it replaces first gets a second name
in `scratch/`; its bytes are then overwritten with zeros, synced and unlinked. Everything that a crash leaves behind is
therefore in `scratch/`, and `sweep` destroys it. Overwriting is best effort: SSDs and copy-on-write file systems may
keep old blocks, which is why the documentation asks for an encrypted volume.

One process writes at a time. The write lock is a lock of the operating system, which ends with its process; a pid file
could outlive it.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np

from shardgraph.digest import Raw, begun
from shardgraph.errors import DamagedFile, DiskFull, WorkspaceBusy, WorkspaceError

try:
    import fcntl
except ImportError:
    raise WorkspaceError(
        "a workspace needs Linux or macOS: this system has no file locks that end with their process (flock); "
        "on Windows, use the Windows Subsystem for Linux"
    ) from None


PIECE = 1 << 22  # bytes per read
PAUSE = 0.05  # seconds between two attempts
_ZEROS = bytes(1 << 20)
_T = TypeVar("_T")
Stamp = tuple[int, int, int]
"""The inode of a file, its size, and when it was written."""


# Writing and reading


def write_file(root: Path, path: Path, *pieces: Raw, mode: int = 0o644, old: list[Path] | None = None) -> None:
    """Write these bytes to `path`, completely or not at all, and destroy the file that they replace.

    With `old`, the path of the replaced file is added to the list, and the caller destroys it; if the process ends
    before, `sweep` does.
    """
    new = scratch_path(root)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    adopt(root, new, path, old)


def adopt(root: Path, new: Path, path: Path, old: list[Path] | None = None) -> None:
    """Move the synced file `new` to `path`; the file that it replaces is destroyed, or added to `old`."""
    _make_folder(path.parent)
    before = None
    if path.exists():
        before = scratch_path(root)
        os.link(path, before)
    new.replace(path)
    sync_folder(path.parent)
    if before is not None and old is not None:
        old.append(before)
    elif before is not None:
        destroy(before)


def read_file(path: Path) -> memoryview:
    """The bytes of a file; an error if it is missing. NumPy allocates the memory, because it can use large pages."""
    with _opened(path) as file:
        raw, done = np.empty(os.fstat(file.fileno()).st_size, np.uint8).data, 0
        while count := file.readinto(raw[done:]):  # one call reads 2 GiB at most
            done += count
        return raw[:done]


def read_digested(path: Path) -> tuple[memoryview, str]:
    """The bytes of a file and their digest; a thread hashes one piece while the next is read."""
    with _opened(path) as file, in_background() as later:
        size, done = os.fstat(file.fileno()).st_size, 0
        raw, hashed = np.empty(size, np.uint8).data, begun(size)
        while count := file.readinto(raw[done : done + PIECE]):
            later(hashed.update, raw[done : done + count])
            done += count
    return raw[:done], hashed.hexdigest()


# Destroying


def destroy(path: Path) -> None:
    """Overwrite, sync and unlink a file; does nothing if there is no such file.

    If a crash undoes the unlinking, the file holds zeros.
    """
    with contextlib.suppress(FileNotFoundError):
        with path.open("r+b") as file:
            left = os.fstat(file.fileno()).st_size
            while left > 0:
                left -= file.write(_ZEROS[:left])
            file.flush()
            os.fsync(file.fileno())
        path.unlink()


def destroy_with_folder(path: Path) -> None:
    """Destroy a file, and its folder if it becomes empty: an empty folder would show that the file existed."""
    destroy(path)
    with contextlib.suppress(FileNotFoundError):
        sync_folder(path.parent)
    with contextlib.suppress(OSError):
        path.parent.rmdir()


def destroy_below(folder: Path) -> None:
    """Destroy all files below a folder, and remove the folders; the folder itself stays."""
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder comes before it
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif path.is_symlink():
            path.unlink()
        else:
            destroy(path)
    sync_folder(folder)


def sweep(root: Path) -> None:
    """Destroy what an interrupted process left in the scratch folder.

    A file that was about to be replaced may still be in place and have its second name here; then only that name is
    removed, and the bytes stay.
    """
    folder = root / "scratch"
    if folder.is_dir():
        for path in list(folder.iterdir()):
            if path.stat().st_nlink > 1 and _in_place(root, path):
                path.unlink()
            else:
                destroy(path)


# The scratch folder, the disk, and work in the background


def scratch_path(root: Path) -> Path:
    """A new path in the workspace's scratch folder; the file does not exist yet."""
    folder = root / "scratch"
    folder.mkdir(exist_ok=True)
    return folder / uuid.uuid4().hex


def scratch_file(root: Path) -> Path:
    """A new, empty file in the scratch folder; another process may write to it while it exists."""
    path = scratch_path(root)
    path.touch(exist_ok=False)
    return path


def require_content(path: Path) -> None:
    """Raise unless a file exists and is not empty; SQLite would take a missing or empty file for a new database."""
    if not path.exists() or not path.stat().st_size:
        what = "is empty" if path.exists() else "is missing"
        raise DamagedFile(f"{path} {what}: restore the workspace from a backup; no other file lists its samples")


def check_room(path: Path, wanted: int) -> None:
    """Raise `DiskFull` if the disk has no room for `wanted` bytes; call it before anything is written."""
    free = shutil.disk_usage(path).free
    if wanted > free:
        raise DiskFull(f"{path} needs about {wanted / 1e6:.0f} MB free, the disk has {free / 1e6:.0f} MB")


def file_size(path: Path) -> int:
    """The size of a file in bytes; 0 if there is no such file."""
    return path.stat().st_size if path.exists() else 0


def file_stamp(path: Path) -> Stamp | None:
    """What changes when a file is written or replaced; None if there is no such file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def disk_use(root: Path) -> int:
    """The total size of all files below a folder, in bytes."""
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def sync_folder(path: Path) -> None:
    """Make a rename or an unlink in this folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def in_background() -> Iterator[Callable[..., None]]:
    """Yield a function that runs calls in a thread; on exit all calls have finished, or their first error is raised."""
    with ThreadPoolExecutor(1) as pool:
        left: list[Future[object]] = []
        yield lambda work, *given: left.append(pool.submit(work, *given))
    for each in left:
        each.result()


# The write lock


class WriteLock:
    """An exclusive lock of a workspace, reentrant within one object; writing and serving lock different files."""

    def __init__(self, root: Path, name: str = "lock", doing: str = "writing to") -> None:
        self._path, self._doing = root / name, doing
        self._descriptor: int | None = None
        self._depth = 0

    @property
    def held(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> "WriteLock":
        if self._depth == 0:
            self._acquire()
        self._depth += 1
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self.release()

    def release(self) -> None:
        """Release the lock at any depth; does nothing if it is not held."""
        descriptor, self._depth = self._descriptor, 0
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # first, so that a Ctrl-C leaks a descriptor and not the lock
            self._descriptor = None
            os.close(descriptor)

    def _acquire(self) -> None:
        self.release()  # a Ctrl-C may have come between taking the lock and recording it
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise WorkspaceBusy(
                f"another process is {self._doing} {self._path.parent}; wait for it to finish, then try again"
            ) from None


def retry_while_busy(act: Callable[[], _T], seconds: float, *, pause: float = PAUSE) -> _T:
    """The result of `act`, which is repeated while it raises `WorkspaceBusy`; after `seconds` the error is raised."""
    end = time.monotonic() + seconds
    while True:
        try:
            return act()
        except WorkspaceBusy:
            if time.monotonic() >= end:
                raise
        time.sleep(pause)


# Helpers


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[FileIO]:
    try:
        with path.open("rb", buffering=0) as file:
            yield file
    except FileNotFoundError:
        raise DamagedFile(f"{path} is missing; restore it from a backup, or forget the samples that it held") from None


def _make_folder(path: Path) -> None:
    """Create a folder durably: a new entry is durable once the folder that contains it is synced."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync_folder(folder.parent)


def _in_place(root: Path, path: Path) -> bool:
    """Whether a file of the scratch folder has another name outside of it."""
    others = (other for other in root.rglob("*") if other.parent != path.parent and other.is_file())
    return any(path.samefile(other) for other in others)
