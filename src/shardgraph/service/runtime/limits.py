"""Limits on concurrent expensive operations: a call beyond the limit is refused at once and holds no thread."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from shardgraph.errors import WorkspaceBusy

Result = TypeVar("Result")


class ConcurrencyLimit:
    """A semaphore that refuses instead of waiting: at most `most` callers are inside at a time."""

    def __init__(self, most: int, operation: str) -> None:
        self._semaphore, self._operation = threading.Semaphore(most), operation

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Hold one place of the semaphore; `WorkspaceBusy` if none is free."""
        if not self._semaphore.acquire(blocking=False):
            raise WorkspaceBusy(f"too many {self._operation} are under way; try again in a moment")
        try:
            yield
        finally:
            self._semaphore.release()


class SharedCall(Generic[Result]):
    """Calls a function once for all callers that arrive while it runs; all of them get its result or its error."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function, self._lock = function, threading.Lock()
        self._running: Future[Result] | None = None

    def __call__(self) -> Result:
        """Call the function, or wait for the call that is running."""
        with self._lock:
            running = self._running
            future = self._running = running or Future()
        if running is None:
            self._run(future)
        return future.result()

    def _run(self, future: "Future[Result]") -> None:
        try:
            result = self._function()
        except BaseException as error:
            self._finish()
            future.set_exception(error)
        else:
            self._finish()
            future.set_result(result)

    def _finish(self) -> None:
        with self._lock:
            self._running = None
