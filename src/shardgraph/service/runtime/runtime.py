"""The runtime of one serving process: accepts forget requests and serves no model that saw what they name.

A request is accepted in four steps:

1. The request and the samples that it withholds are committed.
2. The model without these samples is assembled.
3. The new model replaces the old one, and predictions that began with the old one end.
4. The request becomes `instant`, and the call is answered.

A call that waits for step 2 while another one is in it finds that its own request was included: many requests cost one
replacement.

Lock order: one of the four locks of the runtime (two at once only in `close`), then the workspace's write lock, which
only the worker, changes of rights and exclusive operations take, then the database's transactions.

In a workspace with private edges, a group "saw" a sample if it learned from it directly, or if it has no budget left
for the removal of that sample.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from shardgraph.errors import InputError, ShardgraphError, WorkspaceBusy
from shardgraph.forget import Key, Submission, Verification, Workspace, due_requests, find_repeated
from shardgraph.learn.ensemble import Model
from shardgraph.service.runtime.limits import ConcurrencyLimit, SharedCall
from shardgraph.service.runtime.queries import Queries
from shardgraph.service.runtime.statistics import Statistics
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import Stamp, file_stamp
from shardgraph.storage.store import SAMPLES
from shardgraph.storage.tables import requests
from shardgraph.storage.tables.requests import ERASING, RECEIVED, RETRAINING, VERIFIED, Request

MAX_PREVIEWS, MAX_EXCLUSIVE = 8, 4  # concurrent calls, of the forty threads that all calls share
UNDER_WAY = (RECEIVED, ERASING, RETRAINING, VERIFIED)


@dataclass(eq=False)
class LeasedModel:
    """A model, the state id that its predictions carry, what it depends on, and how many predictions use it now."""

    id: str
    model: Model
    key: Key
    users: int = field(default=0)


class ModelSlot:
    """Holds the one model that is served; a replacement waits for the predictions that use the old one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._current: LeasedModel | None = None

    @property
    def current(self) -> LeasedModel | None:
        """The model that the next prediction gets; None before there is one."""
        return self._current

    @contextmanager
    def lease(self) -> Iterator[LeasedModel]:
        """Use the current model until the block ends."""
        with self._changed:
            served = self._current
            if served is None:
                raise WorkspaceBusy("the model is being loaded; try again in a moment")
            served.users += 1
        try:
            yield served
        finally:
            with self._changed:
                served.users -= 1
                self._changed.notify_all()

    def replace(self, new: LeasedModel | None) -> None:
        """Serve another model; return when no prediction uses the old one any more."""
        with self._changed:
            old, self._current = self._current, new
            self._changed.wait_for(lambda: old is None or old.users == 0)


class Runtime:
    """An open workspace and its served model, for the threads of one serving process.

    Each lock guards a `Workspace` object of its own, so that a slow operation delays no other kind of operation.
    """

    def __init__(self, root: Path, *, wake_worker: Callable[[], None] = lambda: None, grace: float = 0.0) -> None:
        self.root = root
        self.served = ModelSlot()
        self.previews = ConcurrencyLimit(MAX_PREVIEWS, "previews")
        self._reader = Workspace(root)  # single statements, from any thread, without a lock
        self.queries, self.statistics = Queries(self._reader), Statistics(self._reader)
        self._intake, self._intake_lock = Workspace(root), threading.Lock()  # enters requests
        self._assembly, self._assembly_lock = Workspace(root), threading.RLock()  # assembles the served model
        self._consumers, self._consumers_lock = Workspace(root), threading.Lock()  # rights, and consumers' models
        self._exclusive, self._exclusive_lock = Workspace(root), threading.Lock()  # operations of several statements
        self._exclusive_limit = ConcurrencyLimit(MAX_EXCLUSIVE, "exclusive operations")
        self._verification_limit = ConcurrencyLimit(MAX_EXCLUSIVE, "verifications")
        self._shared_verification = SharedCall(self._verify)
        self._wake_worker, self._grace = wake_worker, grace
        self._damaged: Mapping[Path, Stamp | None] = {}  # files of the model, as `look_for_damage` found them

    @property
    def catalogue(self) -> Catalogue:
        """The database, for single statements from any thread."""
        return self._reader.context.catalogue

    def close(self) -> None:
        """Stop serving, and close the workspace."""
        with self._intake_lock, self._assembly_lock, self._consumers_lock, self._exclusive_lock:
            self.served.replace(None)
            for workspace in (self._intake, self._assembly, self._reader, self._consumers, self._exclusive):
                workspace.close()

    # Requests

    def request(self, number: int) -> Request:
        """A request with its history."""
        return self._reader.queue.find(number)

    def asker_of(self, number: int) -> str | None:
        """The name of the token that made a request; None if there is no such request."""
        return requests.asker_of(self.catalogue, number)

    def keyed_hash(self, *parts: str) -> str:
        """A hash under the workspace's secret key."""
        return self._reader.context.keys.mark(*parts)

    def repeated_request(self, key: str, body: str) -> int | None:
        """The request that was made under this idempotency key; an error if its body was another. Both are hashes."""
        return find_repeated(self.catalogue, key, body)

    def submit(self, submission: Submission) -> Request:
        """Accept a request: when this returns, nothing that saw what it names is served."""
        if submission.deadline is not None and submission.deadline <= datetime.now(UTC):
            raise InputError(
                f"a deadline must lie ahead, {submission.deadline.isoformat()} is past: leave it out, or move it"
            )
        with self._intake_lock:
            self._intake.context.reload_config()
            number = self._intake.queue.submit(submission).number
        return self.confirm(number)

    def confirm(self, number: int) -> Request:
        """Return a request once nothing that saw what it names is served; if that fails, cancel it and raise."""
        try:
            self.sync(number)
        except ShardgraphError:
            with self._intake_lock:
                if self._intake.queue.find(number).state == RECEIVED:
                    self._intake.queue.cancel(number, release=True)
            raise
        self._wake_worker()
        return self.request(number)

    def cancel(self, number: int) -> Request:
        """Cancel a request; what was withheld for it is served again."""
        with self._intake_lock:
            stored = self._intake.queue.cancel(number)
        self.sync()
        return stored

    def retry(self, number: int) -> Request:
        """Retry a failed request."""
        with self._intake_lock:
            self._intake.queue.retry(number)
        self.sync(number)
        self._wake_worker()
        return self.request(number)

    # The served model

    def sync(self, number: int | None = None) -> None:
        """Serve what may be served now; requests that were received before are instant afterwards.

        With `number`, do so only if that request is not instant yet: another call may have included it.
        """
        with self._assembly_lock:
            if number is not None and self._assembly.queue.find(number).state != RECEIVED:
                return
            received = requests.requests_after(self._assembly.context.catalogue, states=(RECEIVED,), limit=10_000)
            key = self._assembly.served.current_key()
            served = self.served.current
            if not key[0]:
                self.served.replace(None)  # there is no model yet
            elif served is None or served.key != key or self._assembly.served.mended:
                served = self._replace_model(served)
            if received:
                self._assembly.queue.withhold([stored.number for stored in received], served.id if served else "")
                self._wake_worker()

    def _replace_model(self, old: LeasedModel | None) -> LeasedModel:
        for workspace in (self._reader, self._assembly):
            workspace.context.reload_config()
        model = self._assembly.served.model(spare_damaged=True)
        key = self._assembly.served.key
        assert key is not None
        if old is not None and old.model.digest == model.digest:
            old.key = key
            return old
        new = LeasedModel(self._assembly.served.record_state(model, key[1]), model, key)
        self.served.replace(new)
        return new

    @property
    def damage(self) -> str:
        """What is damaged and what mends it, without names; "" if no damage is known."""
        files = [path for path, stamp in self._damaged.items() if file_stamp(path) == stamp]  # those not mended since
        files += self._assembly.served.spared
        if any(path.is_relative_to(self.root / SAMPLES) for path in files):
            return "a file of samples is damaged: `shardgraph verify` names it, restore it from a backup"
        return "a file of the model is damaged: `shardgraph repair` builds it again" if files else ""

    @property
    def mended(self) -> bool:
        """Whether a damaged file that the model is served without has changed since; then `sync` reads it again."""
        return self._assembly.served.mended

    def look_for_damage(self) -> None:
        """Read the files of the model on disk, to notice damage that a model in memory does not show."""
        self._damaged = self._reader.served.find_damaged()

    # Consumers and exclusive operations

    def consumer_model(self, consumer: str) -> Model:
        """The model of a consumer's right as it is now; call it while the served model is leased."""
        with self._consumers_lock:
            return self._consumers.consumers.model(consumer)

    def refresh_consumer_models(self) -> None:
        """Bring consumers' models in memory up to date: erased samples and revoked rights leave them as well."""
        with self._consumers_lock:
            if "consumers" in vars(self._consumers):  # no model of a right was asked for yet
                self._consumers.consumers.renew()

    @contextmanager
    def rights_workspace(self) -> Iterator[Workspace]:
        """The workspace for changes of rights. They take the write lock, and fail while the worker holds it."""
        with self._consumers_lock:
            yield self._consumers

    @contextmanager
    def exclusive_workspace(self) -> Iterator[Workspace]:
        """A workspace that no other call uses, for operations of more than one statement; few calls may wait for it.

        Its models are dropped afterwards: nothing would keep them up to date.
        """
        with self._exclusive_limit.enter(), self._exclusive_lock:
            self._exclusive.context.reload_config()
            try:
                yield self._exclusive
            finally:
                self._exclusive.context.drop_models()

    def verify(self) -> Verification:
        """Check all certificates, all files and the model now, once for all callers that wait; not while requests are
        due, for verification holds the lock that they need."""
        with self._verification_limit.enter():
            return self._shared_verification()

    def _verify(self) -> Verification:
        if due_requests(self._reader.context, self._grace) or requests.requests_after(
            self.catalogue, states=UNDER_WAY, limit=1
        ):
            raise WorkspaceBusy("requests are being carried out and come first: verify again when they are done")
        with self.exclusive_workspace() as workspace:
            return workspace.verify()
