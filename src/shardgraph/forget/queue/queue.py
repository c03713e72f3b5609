"""The queue of a service's forget requests, in the catalogue: what waits, how far it is, and how it got there.

    received -> instant -> erasing -> retraining -> verified -> done
                   |          (from here on it cannot be cancelled)
                   +-> cancelled                      any -> failed, with a reason; its data stays withheld

A state is entered in the transaction that makes it true, or after what it says has become true. While an entry
waits, its samples are listed as withheld, and nothing that saw them is served (`serving`). Every batch that is
carried out is one request of the core (`execute`): its steps move all its entries.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from shardgraph.errors import DamagedFile, InputError, WorkspaceError
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.storage.database import Catalogue

RECEIVED, INSTANT, ERASING, RETRAINING = "received", "instant", "erasing", "retraining"
VERIFIED, DONE, FAILED, CANCELLED = "verified", "done", "failed", "cancelled"
STATES = (RECEIVED, INSTANT, ERASING, RETRAINING, VERIFIED, DONE, FAILED, CANCELLED)
FINAL = (DONE, FAILED, CANCELLED)
PATIENCE = timedelta(days=30)  # the deadline of a request that names none
COLUMNS = "number, state, received, deadline, asker, reason, samples, request, certificate, failure"


@dataclass(frozen=True)
class Entry:
    """One request in the queue; `history` is every state it has entered, with the time."""

    number: int
    state: str
    received: str
    deadline: str
    asker: str
    reason: str
    samples: int
    request: int | None
    certificate: int | None
    failure: str
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Submission:
    """What is entered: who asks for what, until when, and under which keys it is recognised if it comes again."""

    request: ForgetRequest
    asker: str = ""
    deadline: datetime | None = None
    key: str | None = None
    body: str = ""


def now() -> str:
    """The time, as it is kept."""
    return datetime.now(UTC).isoformat()


def tell(db: sqlite3.Connection, event: str, detail: dict[str, object]) -> None:
    """Add a line to the ledger; it names no sample. In the caller's transaction."""
    Catalogue.log(db, event, detail)


def enter(db: sqlite3.Connection, what: Submission, ids: Sequence[str], marks: Iterable[str] = ()) -> int:
    """Enter a request, and withhold its samples; in the caller's transaction.

    `marks` are keyed hashes of what it names, by which its asker is known when the names are gone.
    """
    received = datetime.now(UTC)
    deadline = (what.deadline or received + PATIENCE).astimezone(UTC).isoformat()
    wish = json.dumps({k: v for k, v in what.request.to_json().items() if k != "reason"})
    row = (RECEIVED, received.isoformat(), deadline, what.asker, what.request.reason, len(ids), wish)
    sql = (
        "INSERT INTO queue (state, received, deadline, asker, reason, samples, wish, key, body)"
        " VALUES (?,?,?,?,?,?,?,?,?)"
    )
    number = db.execute(sql, (*row, what.key, what.body)).lastrowid
    assert number is not None
    db.executemany("INSERT INTO withheld VALUES (?, ?)", [(sample, number) for sample in ids])
    db.executemany("INSERT INTO named VALUES (?, ?)", [(number, mark) for mark in sorted(set(marks))])
    db.execute("INSERT INTO moves (entry, state, time) VALUES (?, ?, ?)", (number, RECEIVED, received.isoformat()))
    tell(db, RECEIVED, {"entry": number, "samples": len(ids)})
    return number


def move(db: sqlite3.Connection, numbers: Iterable[int], state: str, *, of: Sequence[str] = STATES) -> int:
    """Let entries that are in one of the states `of` enter another; how many did. In the caller's transaction."""
    marks, moved = ",".join("?" * len(of)), 0
    for number in numbers:
        changed = db.execute(
            f"UPDATE queue SET state = ?, failure = '' WHERE number = ? AND state IN ({marks})", (state, number, *of)
        ).rowcount
        if changed:
            db.execute("INSERT INTO moves (entry, state, time) VALUES (?, ?, ?)", (number, state, now()))
        moved += changed
    return moved


def start(db: sqlite3.Connection, numbers: Sequence[int], request: int) -> None:
    """Tie waiting entries to the core's request that carries them out: they are being erased from here on."""
    if move(db, numbers, ERASING, of=(INSTANT,)) != len(numbers):
        raise WorkspaceError("an entry of the batch was cancelled meanwhile; choose again")
    for number in numbers:
        db.execute("UPDATE queue SET request = ? WHERE number = ?", (request, number))
        db.execute("DELETE FROM withheld WHERE entry = ?", (number,))


def follow(db: sqlite3.Connection, request: int, state: str) -> None:
    """Let the entries of a core's request enter its state."""
    numbers = [n for (n,) in db.execute("SELECT number FROM queue WHERE request = ? AND state <> ?", (request, state))]
    move(db, numbers, state)


def close(db: sqlite3.Connection, request: int, certificate: int, *, lacking: str = "") -> None:
    """Note the certificate, and drop what the entries named; `settle` says that they are done.

    Where groups are lacking, the entries fail, and are told why.
    """
    db.execute("UPDATE queue SET certificate = ?, wish = '{}' WHERE request = ?", (certificate, request))
    if lacking:
        numbers = [number for (number,) in db.execute("SELECT number FROM queue WHERE request = ?", (request,))]
        fail(db, numbers, f"erased, but groups could not be rebuilt: {lacking}")


def settle(catalogue: Catalogue) -> list[int]:
    """Move what is closed, and whose traces are out of the log by now, to done."""
    sql = (
        "SELECT q.number FROM queue q JOIN requests r ON r.number = q.request"
        " WHERE q.state = 'verified' AND q.certificate IS NOT NULL AND r.state = 'done'"
    )
    numbers = [number for (number,) in catalogue.all(sql)]
    if numbers:
        with catalogue.transaction() as db:
            move(db, numbers, DONE)
    return numbers


def reason(error: Exception) -> str:
    """Why an entry failed, in words that name nobody: they stay when the names are gone."""
    if isinstance(error, DamagedFile):
        return "a file that it needs is torn or was changed: `shardgraph verify` names it, restore it from a backup"
    return f"{type(error).__name__}: `shardgraph verify` says what is wrong"


def fail(db: sqlite3.Connection, numbers: Iterable[int], reason: str) -> None:
    """Let entries fail; what they named stays withheld. The reason names nobody."""
    numbers = list(numbers)
    move(db, numbers, FAILED)
    db.executemany("UPDATE queue SET failure = ? WHERE number = ?", [(reason, number) for number in numbers])


def cancel(catalogue: Catalogue, number: int, *, release: bool = False) -> None:
    """Take a waiting request back; its samples are not withheld any more. With `release` its key may come again."""
    with catalogue.transaction() as db:
        found = db.execute("SELECT state, request FROM queue WHERE number = ?", (number,)).fetchone()
        if found is None:
            raise InputError(f"there is no request {number}")
        if found[1] is not None or not move(db, [number], CANCELLED, of=(RECEIVED, INSTANT, FAILED)):
            raise WorkspaceError(f"request {number} is {found[0]}: it can be cancelled until erasing starts")
        db.execute("DELETE FROM withheld WHERE entry = ?", (number,))
        db.execute("DELETE FROM named WHERE entry = ?", (number,))
        db.execute("UPDATE queue SET wish = '{}' WHERE number = ?", (number,))
        if release:
            db.execute("UPDATE queue SET key = NULL WHERE number = ?", (number,))
        tell(db, CANCELLED, {"entry": number})
    catalogue.scrub()


def find(catalogue: Catalogue, number: int) -> Entry:
    """One entry, with its history."""
    row = catalogue.one(f"SELECT {COLUMNS} FROM queue WHERE number = ?", number)
    if row is None:
        raise InputError(f"there is no request {number}")
    history = catalogue.all("SELECT state, time FROM moves WHERE entry = ? ORDER BY number", number)
    return replace(Entry(*row), history=tuple((state, time) for state, time in history))


def listed(
    catalogue: Catalogue, *, states: Sequence[str] = (), asker: str | None = None, after: int = 0, limit: int = 100
) -> list[Entry]:
    """Entries by number, without their history: those after `after`, in one of `states` if any are given."""
    marks = ",".join("?" * len(states)) or "state"
    sql = f"SELECT {COLUMNS} FROM queue WHERE number > ? AND state IN ({marks}) AND (? IS NULL OR asker = ?)"
    rows = catalogue.all(sql + " ORDER BY number LIMIT ?", after, *states, asker, asker, limit)
    return [Entry(*row) for row in rows]


def newest(
    catalogue: Catalogue, *, states: Sequence[str] = (), asker: str | None = None, before: int = 0, limit: int = 100
) -> list[Entry]:
    """Entries from the last on, without their history: those below `before`, unless that is 0."""
    marks = ",".join("?" * len(states)) or "state"
    sql = f"SELECT {COLUMNS} FROM queue WHERE (? = 0 OR number < ?) AND state IN ({marks}) AND (? IS NULL OR asker = ?)"
    rows = catalogue.all(sql + " ORDER BY number DESC LIMIT ?", before, before, *states, asker, asker, limit)
    return [Entry(*row) for row in rows]


def repeated(catalogue: Catalogue, key: str, body: str) -> int | None:
    """The entry that came under this key before, if any; an error if the hash of what it asked is another."""
    found = catalogue.one("SELECT number, body FROM queue WHERE key = ?", key)
    if found and found[1] != body:
        raise WorkspaceError("this Idempotency-Key came before, with another request")
    return found[0] if found else None


def wish(catalogue: Catalogue, number: int) -> ForgetRequest:
    """What an entry names; nothing once it is closed."""
    row = catalogue.one("SELECT wish, reason FROM queue WHERE number = ?", number)
    named = {kind: tuple(names) for kind, names in json.loads(row[0]).items()} if row else {}
    return ForgetRequest(**named, reason=row[1] if row else "")


def asked_by(catalogue: Catalogue, asker: str, mark: str, certificate: int | None = None) -> bool:
    """Whether one of this asker's entries (of those that end in this certificate) named what `mark` is the hash of."""
    sql = (
        "SELECT 1 FROM named n JOIN queue q ON q.number = n.entry"
        " WHERE n.mark = ? AND q.asker = ? AND (? IS NULL OR q.certificate = ?)"
    )
    return catalogue.one(sql, mark, asker, certificate, certificate) is not None


def withheld_by(catalogue: Catalogue, numbers: Iterable[int]) -> list[str]:
    """The ids that these entries withhold."""
    marks = ",".join(str(int(number)) for number in numbers)
    return [i for (i,) in catalogue.all(f"SELECT DISTINCT id FROM withheld WHERE entry IN ({marks}) ORDER BY id")]
