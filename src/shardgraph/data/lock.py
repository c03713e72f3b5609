"""One writer: an OS lock that dies with its process, never a pid file that outlives it."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from shardgraph.errors import WorkspaceBusy


class WriteLock:
    """The workspace's exclusive lock; reentrant within one object."""

    def __init__(self, root: Path) -> None:
        self._path = root / "lock"
        self._descriptor: int | None = None
        self._depth = 0

    @property
    def held(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> "WriteLock":
        if self._depth == 0:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise WorkspaceBusy(
                    f"another process is writing to {self._path.parent}; wait for it to finish, then try again"
                ) from None
            self._descriptor = descriptor
        self._depth += 1
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth == 0 and self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
