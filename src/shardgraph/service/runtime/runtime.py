"""The runtime of one serving process: accepts forget requests and serves no model that saw what they name.

A request is accepted in four steps:

1. The request and the samples that it withholds are committed.
2. The model without these samples is assembled.
3. The new model replaces the old one, and every answer that uses the old one is sent, begun anew or refused.
4. The request becomes `instant`, and the call is answered.

Step 3 is what leases are for. Whatever shows something that a model made, a prediction, an accuracy or a digest, holds
a lease from before it is computed until it is sent. `models.Models` is the only way from a call to a model, and takes
the lease; `middleware.ModelGate` sends the answer and ends the lease.

A call that waits for step 2 while another one is in it finds that its own request was included: many requests cost one
replacement.

Lock order: one of the four locks of the runtime (two at once only in `close`), then the workspace's write lock, which
only the worker, changes of rights and exclusive operations take, then the database's transactions.

In a workspace with private edges, a group "saw" a sample if it learned from it directly, or if it has no budget left
for the removal of that sample.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shardgraph.errors import InputError, ShardgraphError, WorkspaceBusy
from shardgraph.forget import (
    Key,
    Reach,
    Right,
    Submission,
    Verification,
    Workspace,
    due_requests,
    evaluate_model,
    find_repeated,
)
from shardgraph.learn.ensemble import Model
from shardgraph.service.runtime.limits import ConcurrencyLimit, SharedCall
from shardgraph.service.runtime.queries import Queries
from shardgraph.service.runtime.statistics import Statistics
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import Stamp, file_stamp
from shardgraph.storage.store import SAMPLES
from shardgraph.storage.tables import requests
from shardgraph.storage.tables.requests import ERASING, RECEIVED, RETRAINING, VERIFIED, Request

MAX_PREVIEWS, MAX_EXCLUSIVE, MAX_EVALUATIONS = 8, 4, 4  # concurrent calls, of the forty threads that all calls share
PATIENCE = 5.0  # seconds that a replacement of the model waits for the answers that use the old one
LEASES = "shardgraph.leases"  # the key of a call's ASGI scope under which its leases are kept
UNDER_WAY = (RECEIVED, ERASING, RETRAINING, VERIFIED)


@dataclass(frozen=True, eq=False)
class ModelState:
    """What is served at a time: a model (none before the first training), its state id, and what it depends on."""

    id: str | None = None
    model: Model | None = None
    key: Key | None = None
    groups: int = 0


class Lease:
    """The use of a served state by one answer, from before it is computed until it is sent.

    superseded   a replacement waits for this lease: a long computation stops, and begins anew with the new state
    revoked      the replacement waits no longer: the answer must not be sent
    """

    def __init__(self, slot: "ModelSlot", state: ModelState) -> None:
        self.state, self.superseded, self.revoked = state, False, False
        self.cut: Callable[[], object] | None = None  # ends the sending; set while the answer is being sent
        self._slot = slot

    def begin_sending(self, cut: Callable[[], object]) -> bool:
        """Whether the answer may be sent; `cut` is called, from any thread, if that takes too long."""
        return self._slot.begin_sending(self, cut)

    def end(self) -> None:
        """End the lease; it may be ended before."""
        self._slot.end(self)


class ModelSlot:
    """Holds the one state that is served; a replacement waits for the leases of the old one, but not for ever."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._current, self._leases = ModelState(), set[Lease]()

    @property
    def current(self) -> ModelState:
        """The state that the next lease is for."""
        return self._current

    def take(self) -> Lease:
        """A lease of the current state; the caller ends it."""
        with self._changed:
            lease = Lease(self, self._current)
            self._leases.add(lease)
            return lease

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """A lease that ends with the block."""
        lease = self.take()
        try:
            yield lease
        finally:
            lease.end()

    def begin_sending(self, lease: Lease, cut: Callable[[], object]) -> bool:
        """See `Lease.begin_sending`."""
        with self._changed:
            lease.cut = cut
            return not lease.revoked

    def end(self, lease: Lease) -> None:
        """See `Lease.end`."""
        with self._changed:
            self._leases.discard(lease)
            self._changed.notify_all()

    def replace(self, new: ModelState) -> None:
        """Serve another state; when this returns, no answer is sent any more that used an earlier one.

        After PATIENCE seconds the remaining leases are revoked: answers that are still computed are refused when they
        are to be sent, and answers that are being sent are cut off.
        """
        with self._changed:
            self._current, old = new, set(self._leases)
            for lease in old:
                lease.superseded = True
            if self._changed.wait_for(lambda: not old & self._leases, PATIENCE):
                return
            for lease in old & self._leases:
                lease.revoked = True
                if lease.cut is None:
                    self._leases.discard(lease)
                else:
                    lease.cut()
            self._changed.wait_for(lambda: not old & self._leases, PATIENCE)


class Runtime:
    """An open workspace and its served model, for the threads of one serving process.

    Each lock guards a `Workspace` object of its own, so that a slow operation delays no other kind of operation.
    """

    def __init__(self, root: Path, *, wake_worker: Callable[[], None] = lambda: None, grace: float = 0.0) -> None:
        self.root = root
        self.served = ModelSlot()
        self.previews = ConcurrencyLimit(MAX_PREVIEWS, "previews")
        self.evaluations = ConcurrencyLimit(MAX_EVALUATIONS, "evaluations")
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
            self.served.replace(ModelState())
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

    @property
    def served_state_id(self) -> str | None:
        """The id of the state that is served; None before there is a model."""
        return self.served.current.id

    def sync(self, number: int | None = None) -> None:
        """Serve what may be served now; requests that were received before are instant afterwards.

        With `number`, do so only if that request is not instant yet: another call may have included it.
        """
        with self._assembly_lock:
            if number is not None and self._assembly.queue.find(number).state != RECEIVED:
                return
            received = requests.requests_after(self._assembly.context.catalogue, states=(RECEIVED,), limit=10_000)
            key = self._assembly.served.current_key()
            state = self.served.current
            if state.key != key or self._assembly.served.mended:
                state = self._replace_model(state, key)
            if received:
                self._assembly.queue.withhold([stored.number for stored in received], state.id or "")
                self._wake_worker()

    def _replace_model(self, old: ModelState, key: Key) -> ModelState:
        """Serve the model of now. The leases of the old state end even if the model is the same: an answer may have
        used a held-out sample that is withheld now."""
        new = ModelState(key=key)  # there is no model yet
        if key[0]:
            for workspace in (self._reader, self._assembly):
                workspace.context.reload_config()
            served = self._assembly.served
            model = served.model(spare_damaged=True)
            assert served.key is not None
            same = old.model is not None and old.model.digest == model.digest
            state = old.id if same else served.record_state(model, served.key[1])
            new = ModelState(state, model, served.key, served.groups)
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
        """The model of a consumer's right as it is now; `models.Models` calls it while it holds a lease."""
        with self._consumers_lock:
            return self._consumers.consumers.model(consumer)

    def accuracy(
        self, model: Model, check: Callable[[], None], sources: Collection[str] | None = None
    ) -> dict[str, Any]:
        """The accuracy of a leased model on the held-out samples; `check` is called often, and may raise."""
        return evaluate_model(self._reader.context, model, check, sources)

    def refresh_consumer_models(self) -> None:
        """Bring consumers' models in memory up to date: erased samples and revoked rights leave them as well."""
        with self._consumers_lock:
            if "consumers" in vars(self._consumers):  # no model of a right was asked for yet
                self._consumers.consumers.renew()

    def grant(self, consumer: str, sources: Iterable[str], shards: Iterable[str]) -> Right:
        """Let a consumer use more. This takes the write lock, and fails while the worker holds it."""
        with self._consumers_lock:
            return self._consumers.consumers.grant(consumer, sources, shards)

    def revoke(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """Take some of what a consumer may use, or all of it. This takes the write lock, as `grant` does."""
        with self._consumers_lock:
            return self._consumers.consumers.revoke(consumer, sources, shards)

    def provision(self, consumer: str) -> int:
        """Train the groups that a right lacks; returns how many. No prediction waits for this."""
        with self.exclusive_workspace() as workspace:
            return workspace.consumers.provision(consumer)

    def reach(self, right: Right) -> Reach:
        """How much of the workspace a right covers."""
        with self.exclusive_workspace() as workspace:
            return workspace.consumers.reach(right)

    @contextmanager
    def exclusive_workspace(self) -> Iterator[Workspace]:
        """A workspace that no other call uses, for operations of more than one statement; few calls may wait for it.

        No answer is made with its models: they hold no lease. They are dropped afterwards.
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
