"""What is dear has few places: whoever comes when all are taken is asked to come again, and keeps no thread."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from shardgraph.errors import WorkspaceBusy

Found = TypeVar("Found")


class Places:
    """So many may be at something at a time."""

    def __init__(self, most: int, doing: str) -> None:
        self._free, self._doing = threading.Semaphore(most), doing

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place, until the block ends; an error if none is free."""
        if not self._free.acquire(blocking=False):
            raise WorkspaceBusy(f"too many are {self._doing} just now; try again in a moment")
        try:
            yield
        finally:
            self._free.release()


class Together(Generic[Found]):
    """Does something once for all who ask for it while it is done."""

    def __init__(self, work: Callable[[], Found]) -> None:
        self._work, self._lock = work, threading.Lock()
        self._under_way: Future[Found] | None = None

    def __call__(self) -> Found:
        """What was found by the one who came first."""
        with self._lock:
            begun = self._under_way
            mine = self._under_way = begun or Future()
        if begun is None:
            self._do(mine)
        return mine.result()

    def _do(self, promise: "Future[Found]") -> None:
        try:
            found = self._work()
        except BaseException as error:
            self._end()
            promise.set_exception(error)
        else:
            self._end()
            promise.set_result(found)

    def _end(self) -> None:
        with self._lock:
            self._under_way = None
