"""RequestQueue: one process submits forget requests, the same or another process carries them out in batches.

Submitting a request withholds its samples in the same transaction. Carrying requests out needs the write lock. Either
process may be killed at any time: all state is in the catalogue.
"""

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from shardgraph.errors import (
    DamagedFile,
    DiskFull,
    ShardgraphError,
    VerificationError,
    WorkspaceBusy,
    WorkspaceError,
)
from shardgraph.forget.context import Context
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.execute import check_disk, check_inputs
from shardgraph.forget.erase.plan import ForgetPlan, ForgetRequest, named_rows, plan_forget
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.proof import erasure_log
from shardgraph.forget.proof.certificate import Certificate, certificate_path
from shardgraph.forget.proof.log_standing import describe, look
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Submission, next_batch, unite_requests
from shardgraph.storage.catalogue import Transaction
from shardgraph.storage.files import Stamp, file_stamp
from shardgraph.storage.tables import erasures, inventory, ledger, requests
from shardgraph.storage.tables.requests import Request

MOST = 10_000  # requests that one `withhold` moves
POLL = 0.1  # seconds between two checks, while a command waits for the service


class RequestQueue:
    """Forget requests, from their submission to their certificate."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._delayed: dict[int, dict[Path, Stamp | None]] = {}  # requests that wait for files, and how these were

    # Requests

    def submit(self, what: Submission, *, replayed: Sequence[str] = ()) -> Request:
        """Add a request and withhold the samples that it names; a repeated key returns the first request.

        `replayed` are the names of the requests in the erasure log that this one carries out again.
        """
        context = self._context
        if what.key and (before := queue.find_repeated(context.catalogue, what.key, what.body)):
            return self.find(before)
        if what.earlier is not None:
            return self._repeat(what, what.earlier)
        if what.named:  # they stand for these samples only as long as no row was changed
            context.catalogue.check("samples")
        rest, joined = self.without_leaving(what.request)
        plan = (
            plan_forget(context.store, context.config, context.keys, rest) if rest.selectors() or not joined else None
        )
        if plan and plan.rows:
            check_disk(context, plan, instant=False)  # a damaged file delays the erasure, not the withholding
        with context.catalogue.transaction() as transaction:
            number = self._enter(transaction, what, plan, joined, replayed)
        if plan and plan.rows and context.keeps_log:
            erasure_log.confirm(context)
        found = self.find(number)
        queue.waiting_since(context, found)  # its grace period begins now, whatever happens to the clock
        return found

    def has_accepted(self, plan: ForgetPlan) -> bool:
        """Whether all samples of a plan are erased or withheld; either happens in one transaction."""
        here = inventory.known_ids(self._context.catalogue, (row.id for row in plan.rows))
        return here <= requests.withheld_ids(self._context.catalogue)

    def find(self, number: int) -> Request:
        """A request, with its history."""
        return queue.find(self._context.catalogue, number)

    def cancel(self, number: int, *, release: bool = False) -> Request:
        """Cancel a request before its erasure starts; the samples that it withheld may be served again.

        With `release` its Idempotency-Key may be used again: use it if the acceptance was never confirmed.
        """
        context, keeps_log = self._context, self._context.keeps_log
        also = (lambda transaction: erasure_log.owe_cancellation(context, transaction, number)) if keeps_log else None
        queue.cancel(context.catalogue, number, release=release, also=also)
        if keeps_log:
            erasure_log.confirm(context)
        return self.find(number)

    def retry(self, number: int) -> Request:
        """Queue a failed request again."""
        with self._context.catalogue.transaction() as transaction:
            found = self.find(number)
            if found.state != requests.FAILED:
                raise WorkspaceError(f"only a failed request can be tried again, request {number} is {found.state}")
            if found.erasure is None:
                requests.move_requests(transaction, [number], requests.RECEIVED)
            else:
                erasures.retry_unverified(transaction, found.erasure)
                queue.follow(transaction, found.erasure, requests.RETRAINING)
        return self.find(number)

    def withhold(self, numbers: Sequence[int] | None = None, state: str = "") -> list[int]:
        """Record for received requests that nothing that saw their samples is served any more; the caller ensures it.

        `state` is the id of the first served state without the samples.
        """
        waiting = [
            one.number
            for one in requests.requests_after(self._context.catalogue, states=(requests.RECEIVED,), limit=MOST)
        ]
        chosen = [number for number in waiting if numbers is None or number in numbers]
        if chosen:
            with self._context.catalogue.transaction() as transaction:
                for number in requests.move_requests(transaction, chosen, requests.INSTANT, of=(requests.RECEIVED,)):
                    ledger.add_event(transaction, requests.INSTANT, {"entry": number, "state": state})
        return chosen

    def carry_out(self, grace: float = 0.0) -> list[int]:
        """Finish interrupted erasures, then carry out the next batch; returns its requests, none if nothing is due.

        A request that needs a damaged file waits until the file changes; others are carried out meanwhile.
        """
        context = self._context
        waiting = erasures.erasures_under_way(context.catalogue) or next_batch(context, grace, self._held_up())
        if not waiting and not context.catalogue.dirty:
            queue.settle(context.catalogue)
            return []
        with writing(context):
            while batch := next_batch(context, grace, self._held_up()):
                if ready := [number for number in batch if self._can_run(number)]:
                    context.drop_models()
                    execute.carry_out(context, self._plan(ready), False, ready)
                    return ready
        return []

    def wait_for(self, number: int) -> Certificate:
        """Wait until a request is done and return its certificate; if no service runs, this carries it out itself."""
        while (found := self.find(number)).state not in requests.FINAL:
            if found.failure:
                raise WorkspaceError(f"request {number} is accepted, and nothing it names is served; {found.failure}")
            if self._context.is_served:
                time.sleep(POLL)
            else:
                self.withhold()
                if not self.carry_out():
                    time.sleep(POLL)
        if found.certificate is None or found.state != requests.DONE:
            raise WorkspaceError(f"request {number} is {found.state}: {found.failure or 'cancelled'}")
        return Certificate.load(certificate_path(self._context.root, found.certificate))

    def without_leaving(self, request: ForgetRequest) -> tuple[ForgetRequest, int | None]:
        """The request without what an erasure under way is forgetting, and the number of that erasure."""
        leaving = self._leaving(request)
        names = {kind: tuple(name for name in given if (kind, name) not in leaving) for kind, given in request.named()}
        return ForgetRequest(**names, reason=request.reason), max(leaving.values(), default=None)

    # The log of erasures outside the workspace

    def keep_log(self, path: Path) -> None:
        """Log forget requests in a file outside the workspace and its backups, from now on.

        The file must be new, or the record of this workspace.
        """
        with nullcontext() if path.exists() else writing(self._context, honour=False):
            erasure_log.keep_log(self._context, path)

    def begin_log(self, path: Path) -> str:
        """Begin a new log with all that this workspace and the readable lines of the old log know, and honour it.

        Returns what is wrong with the old log; "" if nothing is, or there was none.
        """
        with writing(self._context, honour=False):
            wrong = erasure_log.begin_anew(self._context, path)
            self.honour_log()
        return wrong

    def log_facts(self) -> tuple[Path, str] | None:
        """The path of the log and what a check of all of it found; None if no log is kept."""
        if not self._context.keeps_log:
            return None
        found = describe(self._context)
        return look(self._context).path, found

    def honour_log(self, *, full: bool = False) -> None:
        """Carry out the requests of the log that the ledger lacks; if nothing is to do, this takes no lock.

        While a service runs, it carries them out. With `full`, the whole log is checked.
        """
        context = self._context
        standing = look(context, full=full)
        if standing.settled or (context.is_served and not standing.missing):  # the service adds lines of its own
            return
        with writing(context, honour=False):
            found = self.replay()
            while found is not None and found.state not in requests.FINAL and not context.is_served:
                self.withhold()
                self.carry_out()
                found = self.find(found.number)

    def replay(self, *, full: bool = False) -> Request | None:
        """Submit again the requests of the log that the ledger lacks: the workspace was restored from a backup."""
        context = self._context
        if not context.keeps_log or (standing := look(context, full=full)).settled:
            return None
        found = None
        if standing.ids:
            wish = ForgetRequest(samples=standing.ids, reason="restored")
            found = self.submit(Submission(wish, asker="record"), replayed=standing.missing)
            restored = "this workspace was restored from a backup: requests of the record that are carried out again"
            context.notes.append(f"{restored}: {standing.again}")
        elif standing.missing:
            with context.catalogue.transaction() as transaction:
                erasure_log.record_replay(context, transaction, standing.missing)
        erasure_log.settle(context)
        return found

    # Helpers

    def _plan(self, batch: Sequence[int]) -> ForgetPlan:
        """One plan for all samples that the requests withhold or name by now; its request names what they asked."""
        context = self._context
        asked = unite_requests([queue.wish(context.catalogue, number) for number in batch])
        ids = {*requests.withheld_by(context.catalogue, batch), *(row.id for row in named_rows(context.store, asked))}
        samples = ForgetRequest(samples=tuple(sorted(ids)))
        return replace(plan_forget(context.store, context.config, context.keys, samples), request=asked)

    def _can_run(self, number: int) -> bool:
        """Whether a request can be carried out; if its files are damaged, it waits, and others go on."""
        catalogue = self._context.catalogue
        try:
            plan = self._plan([number])
            if plan.rows:
                return self._has_inputs(number, plan)
            with catalogue.transaction() as transaction:  # another erasure has forgotten its samples meanwhile
                _finish_already(transaction, number, plan.already[-1])
                transaction.mark_dirty()
            catalogue.scrub()
        except DiskFull:
            raise  # the request stays queued for a later attempt
        except ShardgraphError as error:
            with catalogue.transaction() as transaction:
                queue.fail(transaction, [number], queue.failure_reason(error))
        return False

    def _has_inputs(self, number: int, plan: ForgetPlan) -> bool:
        """Whether the files that a request needs are whole; otherwise it waits until one of them changes."""
        context, stamps = self._context, dict[Path, Stamp | None]()
        for _ in range(2):  # the second look comes after the stamps: a file that is restored in between has another one
            try:
                check_inputs(context, plan, instant=False)
                self._delayed.pop(number, None)
                return True
            except (DamagedFile, VerificationError):
                last = certificate_path(context.root, ledger.last_certificate(context.catalogue))
                files = [*map(context.store.path, inventory.unit_digests(context.catalogue)), last]
                stamps = stamps or {path: file_stamp(path) for path in files}
        self._delayed[number] = stamps
        if self.find(number).failure != queue.DAMAGED:
            with context.catalogue.transaction() as transaction:
                queue.delay(transaction, number, queue.DAMAGED)
        return False

    def _held_up(self) -> list[int]:
        """The requests that wait for files which have not changed since they were found damaged."""
        return [
            number
            for number, stamps in self._delayed.items()
            if all(file_stamp(path) == stamp for path, stamp in stamps.items())
        ]

    def _enter(
        self,
        transaction: Transaction,
        what: Submission,
        plan: ForgetPlan | None,
        joined: int | None,
        replayed: Sequence[str] = (),
    ) -> int:
        context = self._context
        rows = plan.rows if plan else ()
        if inventory.find_by(context.catalogue, "id", [row.id for row in rows]) != list(rows):
            raise WorkspaceBusy("the workspace changed meanwhile; submit the request again")
        named = {*what.request.selectors(), *what.named, *(("samples", row.id) for row in rows)}
        named |= {
            (kind, name) for row in rows for kind, name in (("subjects", row.subject), ("sources", row.source)) if name
        }
        marks = [context.keys.mark(*one) for one in named]
        number = queue.enter(transaction, what, context.now(), [row.id for row in rows], marks)
        if replayed:
            erasure_log.record_replay(context, transaction, replayed)
        elif rows:
            if context.keeps_log:
                erasure_log.append(context, transaction, [row.id for row in rows])
        elif plan and plan.already:
            _finish_already(transaction, number, plan.already[-1])
        else:
            self._join(transaction, number, joined)
        return number

    def _repeat(self, what: Submission, earlier: int) -> Request:
        """Enter a request for what an earlier one has erased or is erasing, with the same certificate."""
        context = self._context
        with context.catalogue.transaction() as transaction:
            found = self.find(earlier)
            number = queue.enter(transaction, what, context.now(), [], [context.keys.mark(*one) for one in what.named])
            if found.certificate is not None:
                _finish_already(transaction, number, found.certificate)
            else:
                self._join(transaction, number, found.erasure)
        return self.find(number)

    def _join(self, transaction: Transaction, number: int, erasure: int | None) -> None:
        """Assign a request to the erasure under way that forgets the same samples."""
        found = erasures.find_erasure(self._context.catalogue, erasure) if erasure is not None else None
        if found is None or found.state in (erasures.DONE, erasures.INSTANT):
            raise WorkspaceBusy("the workspace changed meanwhile; submit the request again")
        requests.set_erasure(transaction, number, found.number)
        retraining = found.state == erasures.RETRAINING
        state = requests.RETRAINING if retraining else requests.ERASING
        requests.move_requests(transaction, [number], state)

    def _leaving(self, request: ForgetRequest) -> dict[tuple[str, str], int]:
        """Those of the names that an erasure under way is forgetting, with its number."""
        context = self._context
        gone = erasures.erasures_of(context.catalogue, request.samples)
        found = {("samples", name): number for name, number in gone.items()}
        openings = erasures.openings(context.catalogue).items()
        marks = {mark: number for number, opening in openings for mark in json.loads(opening).get("emptied", ())}
        for kind, name in request.selectors() if marks else ():
            if kind != "samples" and (number := marks.get(context.keys.mark(kind, name))):
                found[kind, name] = number
        return found


def _finish_already(transaction: Transaction, number: int, certificate: int) -> None:
    """End a request whose names were forgotten before; it gets the certificate of that time."""
    requests.close_request(transaction, number, certificate)
    requests.release_samples(transaction, number)
    requests.move_requests(transaction, [number], requests.DONE)
