"""What runs beside the calls: the worker process, and the watcher thread that notices changes by other processes."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from anyio import to_thread
from fastapi import FastAPI

from shardgraph.service.runtime.logs import write_error, write_log
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.storage.catalogue import Catalogue

INTERVAL, LONGEST_INTERVAL = 0.05, 5.0  # seconds between two looks at the database: usually, and at most after errors
DAMAGE_CHECK, DAMAGE_SHARE = 60.0, 50  # seconds between two readings of the model's files, at least this many times one
RESTART = 1.0  # seconds, at least, between two starts of a worker
LAST_BATCH = 30.0  # seconds that a worker gets to finish its batch


class Worker(Protocol):
    """Carries requests out: `WorkerProcess`, or in tests an object that does so step by step."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        ...

    def start(self) -> None:
        """Start, unless it runs."""
        ...

    def wake(self) -> None:
        """Say that there may be something to do."""
        ...

    def stop(self) -> None:
        """Stop after the batch under way."""
        ...


class WorkerProcess:
    """The worker as a child process (`runtime.worker`)."""

    def __init__(self, root: Path, **options: Any) -> None:
        module = "shardgraph.service.runtime.worker"
        self._command = [sys.executable, "-m", module, str(root), json.dumps(options)]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, unless it runs."""
        with self._lock:
            if not self.alive:
                self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, text=True)

    def wake(self) -> None:
        """Say that there may be something to do."""
        self._send("go")

    def stop(self) -> None:
        """Let it finish its batch, for a while; what is left then is done after the next start."""
        self._send("stop")
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.wait(LAST_BATCH)
            except subprocess.TimeoutExpired:
                write_log("batch left for the next start")
            self._process.stdin.close()
            self._process.wait()

    def _send(self, word: str) -> None:
        """Write a line to its standard input; a dead worker's successor finds the work in the database."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                try:
                    print(word, file=self._process.stdin, flush=True)
                except (BrokenPipeError, ValueError):
                    write_log("worker not reachable")


class Watcher(threading.Thread):
    """Lets the runtime synchronise when another process has changed the workspace, and restarts a dead worker.

    `trouble` is the kind of the error that keeps the served model from following the disk; "" while it follows.
    """

    def __init__(self, runtime: Runtime, worker: Worker) -> None:
        super().__init__(name="shardgraph-watcher", daemon=True)
        self._runtime, self._worker, self._ending = runtime, worker, threading.Event()
        self._seen: object = None
        self._next_check = time.monotonic() + DAMAGE_CHECK
        self.trouble = ""

    def run(self) -> None:
        """Look until stopped; less and less often while that fails."""
        catalogue, interval = Catalogue(self._runtime.root / "catalog.sqlite"), INTERVAL
        while not self._ending.wait(interval):
            self._look(catalogue)
            interval = min(2 * interval, LONGEST_INTERVAL) if self.trouble else INTERVAL
            if not self._worker.alive:
                write_log("worker restarted")
                self._worker.start()
                self._ending.wait(RESTART)
        catalogue.close()

    def stop(self) -> None:
        """Stop, and wait until it has."""
        self._ending.set()
        self.join()

    def _look(self, catalogue: Catalogue) -> None:
        """Synchronise if something changed, or if the last look failed."""
        try:
            version = (catalogue.data_version, _modified(self._runtime.root / "manifest.json"))
            if version != self._seen or self.trouble:
                self._seen = version
                self._runtime.sync()
                self._runtime.refresh_consumer_models()
            elif self._runtime.mended:
                self._runtime.sync()
            self._check_files()
            self.trouble = ""
        except Exception as error:  # of any kind: the next look may succeed, and until then no model is replaced
            self.trouble = type(error).__name__
            write_error("synchronisation failed", error)

    def _check_files(self) -> None:
        """Look for damaged files now and then; the larger they are, the less often."""
        began = time.monotonic()
        if began >= self._next_check:
            self._runtime.look_for_damage()
            ended = time.monotonic()
            self._next_check = ended + max(DAMAGE_CHECK, DAMAGE_SHARE * (ended - began))


class Supervisor:
    """Starts the worker and the watcher with the application, and stops them with it.

    `ending` is set when the service begins to end: streams end then.
    """

    def __init__(self, runtime: Runtime, worker: Worker) -> None:
        self._runtime, self._worker, self._watcher = runtime, worker, Watcher(runtime, worker)
        self.ending = threading.Event()

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Everything is started before the first call, and stopped after the last one."""
        self._worker.start()
        self._watcher.start()
        yield
        self.ending.set()
        await to_thread.run_sync(self._watcher.stop)
        await to_thread.run_sync(self._worker.stop)
        await to_thread.run_sync(self._runtime.close)

    def why_not_ready(self) -> str:
        """Why the service is not ready; "" if it is. Everybody may read it, so it names no file."""
        if not self._worker.alive:
            return "the worker is not running"
        if trouble := self._watcher.trouble:
            return f"what is on disk cannot be served ({trouble}): the log says where, `shardgraph verify` says what"
        if not self._watcher.is_alive():
            return "the watcher is not running"
        return self._runtime.damage or ("" if self._runtime.served.current.model else "no model is served yet")


def _modified(path: Path) -> int:
    """When a file was last replaced; 0 if it does not exist."""
    return path.stat().st_mtime_ns if path.exists() else 0
