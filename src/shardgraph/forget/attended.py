"""A site whose requests go through the queue: taken at a desk, carried out in batches, one serving process at most.

Whoever takes a request withholds its samples in the same transaction; whoever carries it out holds the lock. The two
may be different processes, and each may die at any time: what they know is in the catalogue.
"""

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shardgraph.errors import DiskFull, ShardgraphError, WorkspaceBusy, WorkspaceError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetPlan, plan
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.proof import erasure_log
from shardgraph.forget.proof.certificate import Certificate, certificate_path
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.batch import next_batch, union
from shardgraph.forget.queue.queue import Entry, Submission
from shardgraph.forget.site import Site
from shardgraph.learn.ensemble import Model
from shardgraph.storage.files import check_room
from shardgraph.storage.lock import WriteLock

SERVING = "serving"  # the file whose flock says that a service runs
POLL = 0.1  # seconds, while a command waits for the service


class Attended(Site):
    """What a service, and a command beside it, do with the queue."""

    def serving_lock(self) -> WriteLock:
        """The lock that a serving process holds for as long as it lives."""
        return WriteLock(self.root, SERVING, "serving")

    @property
    def served(self) -> bool:
        """Whether a process serves this workspace."""
        if not (self.root / SERVING).exists():
            return False
        try:
            with self.serving_lock():
                return False
        except WorkspaceBusy:
            return True

    def submit(self, what: Submission) -> Entry:
        """Take a request, and withhold what it names; the same key again gives the same entry."""
        if what.key and (before := queue.repeated(self.catalogue, what.key, what.body)):
            return queue.find(self.catalogue, before)
        rest, rides = self.without_leaving(what.request)
        orders = plan(self.store, self.config, self.secrets, rest) if rest.selectors() or not rides else None
        if orders and orders.rows:
            self._check_inputs(orders, instant=True)
        with self.catalogue.transaction() as db:
            number = self._enter(db, what, orders, rides)
        return queue.find(self.catalogue, number)

    def request(self, number: int) -> Entry:
        """An entry of the queue, with its history."""
        return queue.find(self.catalogue, number)

    def cancel(self, number: int, *, release: bool = False) -> Entry:
        """Take a request back before its erasing starts; what was withheld for it may be served again.

        With `release` its Idempotency-Key may come again: nobody was told that it was accepted.
        """
        queue.cancel(self.catalogue, number, release=release)
        erasure_log.note_cancelled(self.root, self.catalogue, number)
        return queue.find(self.catalogue, number)

    def keep_record(self, path: Path) -> None:
        """Record what is asked to be forgotten in a file outside the workspace and its backups, from now on."""
        erasure_log.keep_record(self.root, self.secrets, path)

    def replay(self) -> Entry | None:
        """Ask again for what the record says and the ledger does not know: this was restored from a backup."""
        names, ids = erasure_log.missing(self.root, self.secrets, self.catalogue)
        entry = None
        if ids:
            entry = self.submit(Submission(ForgetRequest(samples=tuple(ids), reason="restored"), asker="record"))
        if names:
            with self.catalogue.transaction() as db:
                queue.tell(db, "replayed", {"records": names})
        return entry

    def retry(self, number: int) -> Entry:
        """Let a failed request try again."""
        with self.catalogue.transaction() as db:
            row = db.execute("SELECT state, request FROM queue WHERE number = ?", (number,)).fetchone()
            if row is None or row[0] != queue.FAILED:
                raise WorkspaceError(f"only a failed request can be tried again; {number} is {row and row[0]}")
            if row[1] is None:
                queue.move(db, [number], queue.RECEIVED)
            else:
                db.execute(
                    "UPDATE requests SET state = 'retraining' WHERE number = ? AND state = 'unverified'", row[1:]
                )
                queue.follow(db, row[1], queue.RETRAINING)
        return queue.find(self.catalogue, number)

    def tell_served(self, model: Model, withheld: Sequence[int]) -> str:
        """Tell the ledger that a model is about to be served; the id that its predictions carry."""
        with self.catalogue.transaction() as db:
            last = db.execute("SELECT max(number) FROM ledger").fetchone()[0] or 0
            state = self.secrets.mark("state", str(last + 1), model.digest)[:32]
            facts = {"state": state, "adapters": len(model.average), "withheld": list(withheld)}
            queue.tell(db, SERVING, facts | {"serves": self.secrets.mark(model.digest)})
        return state

    def withhold(self, numbers: Sequence[int] | None = None, state: str = "") -> list[int]:
        """Say of received entries that nothing which saw their samples is served; the caller made it true.

        `state` is the id of the first served state that is without them.
        """
        waiting = [entry.number for entry in queue.listed(self.catalogue, states=(queue.RECEIVED,), limit=10_000)]
        chosen = [number for number in waiting if numbers is None or number in numbers]
        if chosen:
            with self.catalogue.transaction() as db:
                queue.move(db, chosen, queue.INSTANT, of=(queue.RECEIVED,))
                for number in chosen:
                    queue.tell(db, queue.INSTANT, {"entry": number, "state": state})
        return chosen

    def carry_out(self, grace: float = 0.0) -> list[int]:
        """Carry out the next batch, after what was interrupted; the entries it took, none if nothing is due."""
        waiting = execute.under_way(self._bench()) or next_batch(self.store, self.config, grace)
        if not waiting and not self.catalogue.soiled:
            queue.settle(self.catalogue)
            return []
        with self._writing():
            batch = [number for number in next_batch(self.store, self.config, grace) if self._fits(number)]
            if batch:
                self.drop_models()
                execute.carry_out(self._bench(), self._orders(batch), False, batch)
            return batch

    def wait_for(self, number: int) -> Certificate:
        """The certificate of an entry, when it is done; if no service runs (any more), the work is done here."""
        while (entry := self.request(number)).state not in queue.FINAL:
            if self.served:
                time.sleep(POLL)
            else:
                self.withhold()
                if not self.carry_out():
                    time.sleep(POLL)
        if entry.certificate is None or entry.state != queue.DONE:
            raise WorkspaceError(f"request {number} is {entry.state}: {entry.failure or 'taken back'}")
        return Certificate.load(certificate_path(self.root, entry.certificate))

    # Inside

    def _orders(self, batch: Sequence[int]) -> ForgetPlan:
        """One plan for all that the entries withhold, in the name of what they asked."""
        samples = ForgetRequest(samples=tuple(queue.withheld_by(self.catalogue, batch)))
        asked = union([queue.wish(self.catalogue, number) for number in batch])
        return replace(plan(self.store, self.config, self.secrets, samples), request=asked)

    def _fits(self, number: int) -> bool:
        """Whether an entry can be carried out; if its files are damaged it fails, and the others go on."""
        try:
            orders = self._orders([number])
            if orders.rows:
                self._check_inputs(orders, instant=False)
                return True
            self._finish_already(number, orders.already)
        except DiskFull:
            raise  # nobody's fault: later
        except ShardgraphError as error:
            with self.catalogue.transaction() as db:
                queue.fail(db, [number], queue.reason(error))
        return False

    def _finish_already(self, number: int, certificates: Sequence[int]) -> None:
        """What an entry named was forgotten in another way meanwhile: its certificate is this one's."""
        with self.catalogue.transaction() as db:
            db.execute("UPDATE queue SET certificate = ?, wish = '{}' WHERE number = ?", (certificates[-1], number))
            db.execute("DELETE FROM withheld WHERE entry = ?", (number,))
            queue.move(db, [number], queue.DONE)
            self.catalogue.soil(db)
        self.catalogue.scrub()

    def _enter(self, db: sqlite3.Connection, what: Submission, orders: ForgetPlan | None, rides: int | None) -> int:
        rows = orders.rows if orders else ()
        if self.catalogue.rows("id", [row.id for row in rows]) != list(rows):
            raise WorkspaceBusy("the workspace changed just now; ask again")
        named = {*what.request.selectors(), *(("samples", row.id) for row in rows)}
        named |= {("subjects", row.subject) for row in rows if row.subject}
        number = queue.enter(db, what, [row.id for row in rows], [self.secrets.mark(*one) for one in named])
        if rows:
            erasure_log.note(self.root, self.secrets, db, [row.id for row in rows])
            return number
        if orders and orders.already:
            values = (orders.already[-1], number)
            db.execute("UPDATE queue SET certificate = ?, wish = '{}' WHERE number = ?", values)
            queue.move(db, [number], queue.DONE)
        else:
            self._ride(db, number, rides)
        return number

    def _ride(self, db: sqlite3.Connection, number: int, request: int | None) -> None:
        """Tie an entry to the request under way that forgets the same."""
        row = db.execute("SELECT state FROM requests WHERE number = ?", (request,)).fetchone()
        if row is None or row[0] in ("done", "instant"):
            raise WorkspaceBusy("the workspace changed just now; ask again")
        db.execute("UPDATE queue SET request = ? WHERE number = ?", (request, number))
        queue.move(db, [number], queue.RETRAINING if row[0] == queue.RETRAINING else queue.ERASING)

    def without_leaving(self, request: ForgetRequest) -> tuple[ForgetRequest, int | None]:
        """The request without what is being forgotten just now, and the number of the core's request that does."""
        leaving = self._leaving(request)
        rest = {kind: tuple(n for n in names if (kind, n) not in leaving) for kind, names in _named(request).items()}
        return ForgetRequest(**rest, reason=request.reason), max(leaving.values(), default=None)

    def _leaving(self, request: ForgetRequest) -> dict[tuple[str, str], int]:
        """Those of the names that are being forgotten just now, with the number of the core's request that does."""
        gone = self.catalogue.among("SELECT id, request FROM leaving WHERE id {}", request.samples)
        found = {("samples", name): number for name, number in gone}
        openings = self.catalogue.all("SELECT number, opening FROM requests WHERE opening <> '{}'")
        marks = {mark: number for number, opening in openings for mark in json.loads(opening).get("emptied", ())}
        for kind, name in request.selectors() if marks else ():
            if kind != "samples" and (number := marks.get(self.secrets.mark(kind, name))):
                found[kind, name] = number
        return found

    def _check_inputs(self, orders: ForgetPlan, instant: bool) -> None:
        """Raise before anything changes if the disk has no room, or a file that will be read is damaged."""
        if last := execute.last_certificate(self._bench()):
            Certificate.load(certificate_path(self.root, last))  # the next one names it
        units = orders.reads if not instant else {row.unit for row in orders.rows} & set(orders.reads)
        sizes = [self.store.read(unit).tokens.nbytes for unit in units]  # which checks its digest
        check_room(self.root, 3 * max(sizes, default=0) + (1 << 20))


def _named(request: ForgetRequest) -> dict[str, Any]:
    return {kind: names for kind, names in request.to_json().items() if kind != "reason"}
