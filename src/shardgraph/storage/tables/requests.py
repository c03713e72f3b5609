"""Requests: what people ask to forget, the states of every request, and the samples that it withholds.

    received -> instant -> erasing -> retraining -> verified -> done
                   |          (from here on it cannot be cancelled)
                   +-> cancelled                      any -> failed

One erasure may carry out several requests, see `tables.erasures`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.tables.inventory import Column, Row

RECEIVED, INSTANT, ERASING, RETRAINING = "received", "instant", "erasing", "retraining"
VERIFIED, DONE, FAILED, CANCELLED = "verified", "done", "failed", "cancelled"
STATES = (RECEIVED, INSTANT, ERASING, RETRAINING, VERIFIED, DONE, FAILED, CANCELLED)
FINAL = (DONE, FAILED, CANCELLED)
OPEN = (RECEIVED, INSTANT, ERASING, RETRAINING, VERIFIED)
_COLUMNS = "number, state, received, deadline, asker, reason, samples, erasure, certificate, failure"
_OF_ASKER = "(? IS NULL OR asker = ?)"


@dataclass(frozen=True)
class Request:
    """One request; `erasure` carries it out, and `history` is every state that it has entered, with the time."""

    number: int
    state: str
    received: str
    deadline: str
    asker: str
    reason: str
    samples: int
    erasure: int | None
    certificate: int | None
    failure: str
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class NewRequest:
    """A request to add: `wish` is JSON text of the names; the keyed hashes `key` and `body` identify a repetition."""

    received: str
    deadline: str
    asker: str
    reason: str
    wish: str
    key: str | None
    body: str


@dataclass(frozen=True)
class Waiting:
    """The number of samples that wait to be erased, and the last request for them that the caller may see."""

    samples: int
    number: int | None


def find_request(catalogue: Catalogue, number: int) -> Request | None:
    """A request by its number, with its history."""
    row = catalogue.one(f"SELECT {_COLUMNS} FROM requests WHERE number = ?", number)
    if row is None:
        return None
    history = catalogue.all("SELECT state, time FROM request_states WHERE request = ? ORDER BY number", number)
    return replace(Request(*row), history=tuple((state, time) for state, time in history))


def requests_after(
    catalogue: Catalogue, *, states: Sequence[str] = (), asker: str | None = None, after: int = 0, limit: int = 100
) -> list[Request]:
    """Requests by number, without history: those after `after`, in one of `states` if any are given."""
    sql = f"SELECT {_COLUMNS} FROM requests WHERE number > ? AND state IN ({_in(states)}) AND {_OF_ASKER}"
    return _listed(catalogue, sql + " ORDER BY number LIMIT ?", after, *states, asker, asker, limit)


def newest_requests(
    catalogue: Catalogue, *, states: Sequence[str] = (), asker: str | None = None, before: int = 0, limit: int = 100
) -> list[Request]:
    """The newest requests first, without history; those below `before`, unless that is 0."""
    sql = f"SELECT {_COLUMNS} FROM requests WHERE (? = 0 OR number < ?) AND state IN ({_in(states)}) AND {_OF_ASKER}"
    return _listed(catalogue, sql + " ORDER BY number DESC LIMIT ?", before, before, *states, asker, asker, limit)


def nearest_deadlines(catalogue: Catalogue, asker: str | None, limit: int) -> list[Request]:
    """The open requests with the nearest deadlines, without history."""
    sql = f"SELECT {_COLUMNS} FROM requests WHERE state IN ({_in(OPEN)}) AND {_OF_ASKER} ORDER BY deadline LIMIT ?"
    return _listed(catalogue, sql, *OPEN, asker, asker, limit)


def find_repeated(catalogue: Catalogue, key: str) -> tuple[int, str] | None:
    """The number and the hashed body of the request with this key."""
    row = catalogue.one("SELECT number, body FROM requests WHERE key = ?", key)
    return (row[0], row[1]) if row else None


def find_wish(catalogue: Catalogue, number: int) -> tuple[str, str] | None:
    """What a request names, as JSON text ("{}" once it is closed), and its reason."""
    row = catalogue.one("SELECT wish, reason FROM requests WHERE number = ?", number)
    return (row[0], row[1]) if row else None


def asker_of(catalogue: Catalogue, number: int) -> str | None:
    """Who submitted a request; None if there is no such request."""
    row = catalogue.one("SELECT asker FROM requests WHERE number = ?", number)
    return row[0] if row else None


def requests_of_erasure(catalogue: Catalogue, erasure: int) -> list[int]:
    """The numbers of the requests that an erasure carries out."""
    return [number for (number,) in catalogue.all("SELECT number FROM requests WHERE erasure = ?", erasure)]


def done_under_certificate(catalogue: Catalogue, certificate: int, asker: str | None = None) -> int | None:
    """A request that is done under this certificate; with `asker`, one of theirs."""
    sql = f"SELECT number FROM requests WHERE certificate = ? AND state = 'done' AND {_OF_ASKER}"
    row = catalogue.one(sql, certificate, asker, asker)
    return row[0] if row else None


def closed_requests(catalogue: Catalogue) -> list[int]:
    """The requests that are verified, have their certificate, and whose erasure is done."""
    sql = (
        "SELECT r.number FROM requests r JOIN erasures e ON e.number = r.erasure"
        " WHERE r.state = 'verified' AND r.certificate IS NOT NULL AND e.state = 'done'"
    )
    return [number for (number,) in catalogue.all(sql)]


def was_named_by(catalogue: Catalogue, asker: str, mark: str, certificate: int | None = None) -> bool:
    """Whether a request of this asker named what `mark` is the hash of; with `certificate`, one that ended in it."""
    sql = (
        "SELECT 1 FROM request_marks n JOIN requests r ON r.number = n.request"
        " WHERE n.mark = ? AND r.asker = ? AND (? IS NULL OR r.certificate = ?)"
    )
    return catalogue.one(sql, mark, asker, certificate, certificate) is not None


def latest_naming(catalogue: Catalogue, asker: str, mark: str) -> int | None:
    """The last request of this asker that named what `mark` is the hash of; one with a certificate, if there is any."""
    sql = (
        "SELECT r.number FROM request_marks n JOIN requests r ON r.number = n.request WHERE n.mark = ? AND r.asker = ?"
        " ORDER BY r.certificate IS NULL, r.number DESC LIMIT 1"
    )
    row = catalogue.one(sql, mark, asker)
    return row[0] if row else None


def count_requests_by_state(catalogue: Catalogue, asker: str | None = None) -> dict[str, int]:
    """How many requests are in each state; states without any are left out."""
    sql = f"SELECT state, count(*) FROM requests WHERE {_OF_ASKER} GROUP BY state"
    return dict(catalogue.all(sql, asker, asker))


def count_overdue(catalogue: Catalogue, now: str, asker: str | None = None) -> int:
    """How many open requests have a deadline before `now`."""
    sql = f"SELECT count(*) FROM requests WHERE state IN ({_in(OPEN)}) AND {_OF_ASKER} AND deadline < ?"
    row = catalogue.one(sql, *OPEN, asker, asker, now)
    return row[0] if row else 0


def count_done(catalogue: Catalogue, asker: str | None = None) -> tuple[int, int]:
    """How many requests are done, and how many of them were done by their deadline."""
    sql = (
        "SELECT count(*), coalesce(sum(m.time <= r.deadline), 0) FROM requests r"
        f" JOIN request_states m ON m.request = r.number AND m.state = 'done' WHERE r.state = 'done' AND {_OF_ASKER}"
    )
    row = catalogue.one(sql, asker, asker)
    return (row[0], row[1]) if row else (0, 0)


def oldest_received(catalogue: Catalogue, states: Sequence[str]) -> str | None:
    """When the oldest request in one of these states was received."""
    row = catalogue.one(f"SELECT min(received) FROM requests WHERE state IN ({_in(states)})", *states)
    return row[0] if row else None


def times_to_done(catalogue: Catalogue, limit: int, asker: str | None = None) -> list[tuple[str, str]]:
    """The times at which the last carried-out requests (of this asker) were received and done, newest first."""
    sql = (
        "SELECT r.received, m.time FROM requests r JOIN request_states m ON m.request = r.number AND m.state = 'done'"
        f" WHERE r.state = 'done' AND r.erasure IS NOT NULL AND {_OF_ASKER} ORDER BY r.number DESC LIMIT ?"
    )
    return [(received, done) for received, done in catalogue.all(sql, asker, asker, limit)]


def add_request(transaction: Transaction, what: NewRequest, ids: Sequence[str], marks: Iterable[str] = ()) -> int:
    """Add a received request, and withhold its samples; returns its number.

    `marks` are keyed hashes of what it names.
    """
    values = (RECEIVED, what.received, what.deadline, what.asker, what.reason, len(ids), what.wish, what.key, what.body)
    sql = (
        "INSERT INTO requests (state, received, deadline, asker, reason, samples, wish, key, body)"
        " VALUES (?,?,?,?,?,?,?,?,?) RETURNING number"
    )
    number: int = transaction.execute(sql, values).fetchone()[0]
    transaction.executemany("INSERT INTO withheld VALUES (?, ?)", [(sample, number) for sample in ids])
    transaction.executemany("INSERT INTO request_marks VALUES (?, ?)", [(number, mark) for mark in sorted(set(marks))])
    _note_state(transaction, number, RECEIVED, what.received)
    return number


def move_requests(
    transaction: Transaction, numbers: Iterable[int], state: str, *, of: Sequence[str] = STATES
) -> list[int]:
    """Move those of the requests that are in one of the states `of` to another; returns the numbers of those moved."""
    sql, moved = f"UPDATE requests SET state = ?, failure = '' WHERE number = ? AND state IN ({_in(of)})", []
    for number in numbers:
        if transaction.execute(sql, (state, number, *of)).rowcount:
            _note_state(transaction, number, state, datetime.now(UTC).isoformat())
            moved.append(number)
    return moved


def move_requests_of(transaction: Transaction, erasure: int, state: str) -> None:
    """Move the requests of an erasure to a state, except those that are in it already."""
    found = transaction.execute("SELECT number FROM requests WHERE erasure = ? AND state <> ?", (erasure, state))
    move_requests(transaction, [number for (number,) in found.fetchall()], state)


def fail_requests(transaction: Transaction, numbers: Iterable[int], reason: str) -> None:
    """Move requests to failed, with a reason that contains no names; their samples stay withheld."""
    numbers = list(numbers)
    move_requests(transaction, numbers, FAILED)
    for number in numbers:
        set_reason(transaction, number, reason)


def set_reason(transaction: Transaction, number: int, reason: str) -> None:
    """Record why a request failed, or why it waits; the next state deletes it."""
    transaction.execute("UPDATE requests SET failure = ? WHERE number = ?", (reason, number))


def set_erasure(transaction: Transaction, number: int, erasure: int) -> None:
    """Record which erasure carries out a request."""
    transaction.execute("UPDATE requests SET erasure = ? WHERE number = ?", (erasure, number))


def close_request(transaction: Transaction, number: int, certificate: int) -> None:
    """Record a request's certificate, and delete the names that it gave."""
    sql = "UPDATE requests SET certificate = ?, wish = '{}' WHERE number = ?"
    transaction.execute(sql, (certificate, number))


def close_requests_of(transaction: Transaction, erasure: int, certificate: int) -> list[int]:
    """The same for all requests of an erasure; returns their numbers."""
    sql = "UPDATE requests SET certificate = ?, wish = '{}' WHERE erasure = ? RETURNING number"
    return [number for (number,) in transaction.execute(sql, (certificate, erasure)).fetchall()]


def drop_names(transaction: Transaction, number: int, *, key: bool = False) -> None:
    """Delete what a cancelled request named, and its marks; with `key`, its key may be used again."""
    transaction.execute("DELETE FROM request_marks WHERE request = ?", (number,))
    transaction.execute("UPDATE requests SET wish = '{}' WHERE number = ?", (number,))
    if key:
        transaction.execute("UPDATE requests SET key = NULL WHERE number = ?", (number,))


# Samples that are withheld: nothing that learned from them is served


def withheld_ids(catalogue: Catalogue) -> set[str]:
    """The ids of all samples that are withheld."""
    return {sample for (sample,) in catalogue.all("SELECT DISTINCT id FROM withheld")}


def withheld_by(catalogue: Catalogue, numbers: Iterable[int]) -> list[str]:
    """The ids of the samples that these requests withhold, in order."""
    sql = "SELECT DISTINCT id FROM withheld WHERE request {}"
    return sorted({sample for (sample,) in catalogue.among(sql, list(numbers))}, key=str.encode)


def withheld_rows(catalogue: Catalogue) -> list[Row]:
    """The rows of the withheld samples, ordered by id."""
    columns = "id, label, source, subject, split, unit"
    sql = f"SELECT {columns} FROM samples WHERE id IN (SELECT id FROM withheld) ORDER BY id"
    return [Row(*row) for row in catalogue.all(sql)]


def withholding_requests(catalogue: Catalogue) -> tuple[int, ...]:
    """The numbers of the requests that withhold samples, in order."""
    return tuple(n for (n,) in catalogue.all("SELECT DISTINCT request FROM withheld ORDER BY request"))


def waiting_by_name(
    catalogue: Catalogue, column: Column, names: Sequence[str], *, asker: str = "", sources: Sequence[str] | None = None
) -> dict[str, Waiting]:
    """Of these names, those with samples that are withheld.

    With `asker`, numbers of other askers' requests are not returned; with `sources`, only their samples count.
    """
    assert column in ("id", "subject", "source")
    among = "w.id" if column == "id" else f"s.{column}"
    own = f" AND s.source IN ({_in(sources, '')})" if sources is not None else ""
    # few samples are withheld: CROSS JOIN makes SQLite scan those first
    sql = (
        f"SELECT s.{column}, count(DISTINCT w.id), max(CASE WHEN ? IN ('', r.asker) THEN w.request END)"
        " FROM withheld w CROSS JOIN samples s ON s.id = w.id CROSS JOIN requests r ON r.number = w.request"
        f" WHERE {among} IN ({_in(names, '')}){own} GROUP BY s.{column}"
    )
    found = catalogue.all(sql, asker, *names, *(sources or ()))
    return {name: Waiting(samples, number) for name, samples, number in found}


def release_samples(transaction: Transaction, number: int) -> None:
    """Release the samples that a request withholds."""
    transaction.execute("DELETE FROM withheld WHERE request = ?", (number,))


def _note_state(transaction: Transaction, number: int, state: str, time: str) -> None:
    transaction.execute("INSERT INTO request_states (request, state, time) VALUES (?, ?, ?)", (number, state, time))


def _listed(catalogue: Catalogue, sql: str, *values: object) -> list[Request]:
    return [Request(*row) for row in catalogue.all(sql, *values)]


def _in(values: Sequence[object], empty: str = "state") -> str:
    """Question marks for `IN (...)`; for no states at all, the column itself, which every row satisfies."""
    return ",".join("?" * len(values)) or empty
