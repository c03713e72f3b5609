"""The office: takes requests, and sees to it that what is served never saw what was asked to be forgotten.

Lock order: the office's mutex, then the catalogue's transactions. The workspace's write lock is the worker's alone.
A request is accepted in four steps under the mutex: its entry and what it withholds are committed; the model without
that is assembled; it is swapped in, and predictions that began with the old one end; the entry becomes instant.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from shardgraph.errors import ShardgraphError
from shardgraph.forget import queue
from shardgraph.forget.config import Config
from shardgraph.forget.queue import Entry, Submission
from shardgraph.forget.serving import served_key
from shardgraph.forget.workspace import Workspace
from shardgraph.service.served import Served, State


class Office:
    """An open workspace and its served model, for the threads of one serving process."""

    def __init__(self, root: Path, *, wake: Callable[[], None] = lambda: None) -> None:
        self.workspace = Workspace(root)  # behind the mutex
        self.reader = Workspace(root)  # single statements, from any thread
        self.served = Served()
        self.wake = wake
        self._mutex = threading.RLock()

    def close(self) -> None:
        """Stop serving, and close the workspace."""
        with self._mutex:
            self.served.replace(None)
            self.workspace.close()
            self.reader.close()

    def submit(self, what: Submission) -> Entry:
        """Accept a request: when this returns, nothing that saw what it names is served."""
        with self._mutex:
            self.workspace.config = Config.load(self.workspace.root)
            number = self.workspace.submit(what).number
            try:
                self.sync()
            except ShardgraphError:
                if self.workspace.request(number).state == queue.RECEIVED:
                    self.workspace.cancel(number)
                raise
            entry = self.workspace.request(number)
        self.wake()
        return entry

    def cancel(self, number: int) -> Entry:
        """Take a request back; what was withheld for it is served again."""
        with self._mutex:
            entry = self.workspace.cancel(number)
            self.sync()
        return entry

    def retry(self, number: int) -> Entry:
        """Let a failed request try again."""
        with self._mutex:
            self.workspace.retry(number)
            self.sync()
            entry = self.workspace.request(number)
        self.wake()
        return entry

    def sync(self) -> None:
        """Serve what may be served now; entries that came in before are instant then."""
        with self._mutex:
            came = queue.listed(self.workspace.catalogue, states=(queue.RECEIVED,), limit=10_000)
            key = served_key(self.workspace.store)
            state = self.served.state
            if not key[0]:
                self.served.replace(None)  # no model yet: nothing can be wrong with it
            elif state is None or state.key != key:
                state = self._swap(state)
            if came:
                self.workspace.withhold([entry.number for entry in came], state.id if state else "")
                self.wake()

    def _swap(self, old: State | None) -> State:
        model = self.workspace.model()
        key = self.workspace.model_key
        assert key is not None
        if old is not None and old.model.digest == model.digest:
            old.key = key
            return old
        state = State(self.workspace.tell_served(model, key[1]), model, key)
        self.served.replace(state)
        return state
