"""One writer: an OS lock that dies with its process, never a pid file that outlives it."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from shardgraph.errors import WorkspaceBusy, WorkspaceError

try:
    import fcntl
except ImportError:
    raise WorkspaceError(
        "a workspace needs Linux or macOS: this system has no file locks that end with their process (flock); "
        "on Windows, use the Windows Subsystem for Linux"
    ) from None


PAUSE = 0.05  # seconds between two attempts
_T = TypeVar("_T")


def retry_while_busy(act: Callable[[], _T], seconds: float, *, pause: float = PAUSE) -> _T:
    """The result of `act`, tried again while it raises `WorkspaceBusy`; after `seconds` the error is raised."""
    end = time.monotonic() + seconds
    while True:
        try:
            return act()
        except WorkspaceBusy:
            if time.monotonic() >= end:
                raise
        time.sleep(pause)


class WriteLock:
    """An exclusive lock of the workspace, reentrant within one object: to write, or (another file) to serve."""

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
        """Give the lock back, however deep; nothing to do if it is not held."""
        descriptor, self._depth = self._descriptor, 0
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # first, so that a Ctrl-C costs a descriptor and not the lock
            self._descriptor = None
            os.close(descriptor)

    def _acquire(self) -> None:
        self.release()  # a Ctrl-C may have come between taking the lock and noting it
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise WorkspaceBusy(
                f"another process is {self._doing} {self._path.parent}; wait for it to finish, then try again"
            ) from None
