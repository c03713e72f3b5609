"""The crew beside the office: the worker process, and the watcher that notices what others have done."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from shardgraph.service.logs import log, place_of
from shardgraph.service.office import Office
from shardgraph.storage.database import Catalogue

LOOK, LATER = 0.05, 5.0  # seconds between two looks at the catalogue, and at most between two that fail
RESTART = 1.0  # seconds, at least, between two starts of a worker
LAST_BATCH = 30.0  # seconds that a worker gets to end its batch


class Hands(Protocol):
    """Whoever carries requests out: `Worker`, or a test that wants to see every step."""

    @property
    def alive(self) -> bool:
        """Whether it works."""
        ...

    def start(self) -> None:
        """Begin, unless begun."""
        ...

    def call(self, word: str = "go") -> None:
        """Say that something may have come in."""
        ...

    def stop(self) -> None:
        """End after what is under way."""
        ...


class Worker:
    """The worker process: started, called, started again when it dies, stopped."""

    def __init__(self, root: Path, **options: Any) -> None:
        module = "shardgraph.service.worker"
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

    def call(self, word: str = "go") -> None:
        """Tell it something; if it is dead the next start will see for itself."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                try:
                    print(word, file=self._process.stdin, flush=True)
                except (BrokenPipeError, ValueError):
                    log("worker gone")

    def stop(self) -> None:
        """Let it end its batch, for a while; what is left then is done after the next start."""
        self.call("stop")
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.wait(LAST_BATCH)
            except subprocess.TimeoutExpired:
                log("batch left for the next start")
            self._process.stdin.close()
            self._process.wait()


class Watcher(threading.Thread):
    """Lets the office look again whenever another process has changed the catalogue, and keeps the worker alive.

    `trouble` is the kind of the error that keeps what is served from being in step with the disk; "" while it is.
    """

    def __init__(self, office: Office, worker: Hands) -> None:
        super().__init__(name="shardgraph-watcher", daemon=True)
        self._office, self._worker, self._ending = office, worker, threading.Event()
        self._seen: object = None
        self.trouble = ""

    def run(self) -> None:
        """Look until told to end, less and less often while it fails."""
        catalogue, pause = Catalogue(self._office.reader.root / "catalog.sqlite"), LOOK
        while not self._ending.wait(pause):
            self._look(catalogue)
            pause = min(2 * pause, LATER) if self.trouble else LOOK
            if not self._worker.alive:
                log("worker started again")
                self._worker.start()
                self._ending.wait(RESTART)
        catalogue.close()

    def end(self) -> None:
        """End, and wait for it."""
        self._ending.set()
        self.join()

    def _look(self, catalogue: Catalogue) -> None:
        """Bring the office up to date, if something changed or the last time failed."""
        try:
            version = (catalogue.one("PRAGMA data_version"), _changed(self._office.reader.root / "manifest.json"))
            if version != self._seen or self.trouble:
                self._seen = version
                self._office.sync()
                self._office.renew_rights()
            self.trouble = ""
        except Exception as error:  # whatever it was, the next look may fare better; until then nothing is swapped
            self.trouble = type(error).__name__
            log("not in step yet", kind=self.trouble, where=place_of(error))


def _changed(path: Path) -> int:
    """When a file was last replaced; 0 if it is not there."""
    return path.stat().st_mtime_ns if path.exists() else 0
