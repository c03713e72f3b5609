"""The office: takes requests, and sees to it that what is served never saw what was asked to be forgotten.

A request is accepted in four steps: its entry and what it withholds are committed; the model without that is
assembled; it is swapped in, and predictions that began with the old one end; the entry becomes instant. Whoever waits
for the second step while another is at it finds that its own entry was taken along: many requests cost one swap.

Lock order: the desk's mutex, the model's, the rights' or the counter's, never one within another but to close, then the
workspace's write lock, which only the worker, the rights and the counter take, then the catalogue's transactions.

In a workspace with private edges "what saw" something are those that learned from it directly, and those that have no
budget left for its removal.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from shardgraph.errors import InputError, ShardgraphError, WorkspaceBusy
from shardgraph.forget.config import Config
from shardgraph.forget.proof.verify import Verification
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.batch import due
from shardgraph.forget.queue.queue import Entry, Submission
from shardgraph.forget.views.served import served_key
from shardgraph.forget.workspace import Workspace
from shardgraph.learn.ensemble import Model
from shardgraph.service.places import Places, Together
from shardgraph.service.served import Served, State

PREVIEWS, VISITORS = 8, 4  # at a time, of the forty threads that calls share
UNDER_WAY = (queue.RECEIVED, queue.ERASING, queue.RETRAINING, queue.VERIFIED)


class Office:
    """An open workspace and its served model, for the threads of one serving process."""

    def __init__(self, root: Path, *, wake: Callable[[], None] = lambda: None, grace: float = 0.0) -> None:
        self.desk = Workspace(root)  # enters requests, behind its mutex
        self.workspace = Workspace(root)  # assembles the model, behind the other
        self.reader = Workspace(root)  # single statements, from any thread
        self.rights = Workspace(root)  # consumers' models, behind a mutex of their own
        self.served = Served()
        self.wake = wake
        self._counter = Workspace(root)  # looks that take several statements, behind the last one
        self._entering, self._swapping, self._entitling = threading.Lock(), threading.RLock(), threading.Lock()
        self._counting, self._grace = threading.Lock(), grace
        self.previews = Places(PREVIEWS, "looking at what a request would do")
        self._waiting, self._asking = Places(VISITORS, "at the counter"), Places(VISITORS, "verifying")
        self._verifying = Together(self._verify)

    def close(self) -> None:
        """Stop serving, and close the workspace."""
        with self._entering, self._swapping, self._entitling, self._counting:
            self.served.replace(None)
            for workspace in (self.desk, self.workspace, self.reader, self.rights, self._counter):
                workspace.close()

    @contextmanager
    def counter(self) -> Iterator[Workspace]:
        """A workspace that nobody else uses meanwhile, for what is more than single statements.

        Few may wait for it. Its models leave the memory with the visitor: nobody would tell them that something was
        forgotten.
        """
        with self._waiting.one(), self._counting:
            self._counter.config = Config.load(self._counter.root)
            try:
                yield self._counter
            finally:
                self._counter.drop_models()

    def verify(self) -> Verification:
        """All certificates, all files and the model, looked at now, once for all who ask; not while requests are due.

        It holds the lock that carrying them out needs.
        """
        with self._asking.one():
            return self._verifying()

    def _verify(self) -> Verification:
        catalogue = self.reader.catalogue
        if due(catalogue, self._grace) or queue.listed(catalogue, states=UNDER_WAY, limit=1):
            raise WorkspaceBusy("requests are being carried out, and come first: verify again when they are done")
        with self.counter() as counter:
            return counter.verify()

    def submit(self, what: Submission) -> Entry:
        """Accept a request: when this returns, nothing that saw what it names is served."""
        if what.deadline is not None and what.deadline <= datetime.now(UTC):
            raise InputError(
                f"a deadline must lie ahead, {what.deadline.isoformat()} is past: leave it out, or move it"
            )
        with self._entering:
            self.desk.config = Config.load(self.desk.root)
            number = self.desk.submit(what).number
        return self.accepted(number)

    def accepted(self, number: int) -> Entry:
        """An entry, once nothing that saw what it names is served; if that cannot be, it is taken back."""
        try:
            self.sync(number)
        except ShardgraphError:
            with self._entering:
                if self.desk.request(number).state == queue.RECEIVED:
                    self.desk.cancel(number, release=True)
            raise
        self.wake()
        return self.reader.request(number)

    def cancel(self, number: int) -> Entry:
        """Take a request back; what was withheld for it is served again."""
        with self._entering:
            entry = self.desk.cancel(number)
        self.sync()
        return entry

    def retry(self, number: int) -> Entry:
        """Let a failed request try again."""
        with self._entering:
            self.desk.retry(number)
        self.sync(number)
        self.wake()
        return self.reader.request(number)

    def model_for(self, consumer: str) -> Model:
        """The model of a consumer's right as it is now; to be called while a state is leased."""
        with self._entitling:
            return self.rights.model_for(consumer)

    def renew_rights(self) -> None:
        """Bring consumers' models in memory up to date: what was forgotten, or a right that ended, leaves them, too."""
        with self._entitling:
            self.rights.renew_servings()

    @contextmanager
    def entitling(self) -> Iterator[Workspace]:
        """The workspace, to change rights; it takes the write lock, and is busy while the worker has it."""
        with self._entitling:
            yield self.rights

    def sync(self, number: int | None = None) -> None:
        """Serve what may be served now; entries that came in before are instant then.

        With `number`, only if that entry is not yet: another call may have taken it along.
        """
        with self._swapping:
            if number is not None and self.workspace.request(number).state != queue.RECEIVED:
                return
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
        self.reader.config = self.workspace.config = Config.load(self.workspace.root)
        model = self.workspace.model()
        key = self.workspace.model_key
        assert key is not None
        if old is not None and old.model.digest == model.digest:
            old.key = key
            return old
        state = State(self.workspace.tell_served(model, key[1]), model, key)
        self.served.replace(state)
        return state
