"""Erasures: the batches that carry out requests, the journal of the samples that they remove, and what was forgotten.

    accepted -> erasing -> retraining -> done
                                      -> instant      erased; groups are missing until `repair` builds them
                                      -> unverified   erased, but a check found something wrong

Marks are keyed hashes of names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.tables import inventory
from shardgraph.storage.tables.inventory import Row

ACCEPTED, ERASING, RETRAINING = "accepted", "erasing", "retraining"
DONE, INSTANT, UNVERIFIED = "done", "instant", "unverified"


@dataclass(frozen=True)
class Erasure:
    """One erasure; `opening` is JSON text about the state before it, and "{}" once it is finished."""

    number: int
    state: str
    instant: bool
    opening: str


@dataclass(frozen=True)
class Leaving:
    """A sample that an erasure under way removes, and the unit that held it."""

    id: str
    unit: str
    split: str


def find_erasure(catalogue: Catalogue, number: int) -> Erasure | None:
    """An erasure by its number."""
    row = catalogue.one("SELECT number, state, instant, opening FROM erasures WHERE number = ?", number)
    return Erasure(row[0], row[1], bool(row[2]), row[3]) if row else None


def last_erasure(catalogue: Catalogue) -> int:
    """The number of the last erasure that was accepted; 0 before the first."""
    row = catalogue.one("SELECT max(number) FROM erasures")
    return (row[0] or 0) if row else 0


def erasures_under_way(catalogue: Catalogue) -> list[int]:
    """The erasures that were accepted and are not finished; a process carries them out or was interrupted."""
    sql = f"SELECT number FROM erasures WHERE state IN ('{ACCEPTED}', '{ERASING}', '{RETRAINING}') ORDER BY number"
    return [number for (number,) in catalogue.all(sql)]


def any_erasure_in(catalogue: Catalogue, state: str) -> bool:
    """Whether an erasure is in this state."""
    return catalogue.one("SELECT 1 FROM erasures WHERE state = ?", state) is not None


def count_erasures_by_state(catalogue: Catalogue) -> dict[str, int]:
    """How many erasures are in each state; states without any are left out."""
    return dict(catalogue.all("SELECT state, count(*) FROM erasures GROUP BY state"))


def carries_requests(catalogue: Catalogue, number: int) -> bool:
    """Whether this erasure carries out requests of the queue."""
    return catalogue.one("SELECT 1 FROM requests WHERE erasure = ? LIMIT 1", number) is not None


def any_closed_request(catalogue: Catalogue) -> bool:
    """Whether a request can be moved to done: it is verified and certified, and its erasure is done."""
    sql = (
        "SELECT 1 FROM requests r JOIN erasures e ON e.number = r.erasure"
        " WHERE r.state = 'verified' AND r.certificate IS NOT NULL AND e.state = 'done' LIMIT 1"
    )
    return catalogue.one(sql) is not None


def openings(catalogue: Catalogue) -> dict[int, str]:
    """By number, the `opening` of every erasure that is not finished."""
    sql = "SELECT number, opening FROM erasures WHERE opening <> '{}'"
    return dict(catalogue.all(sql))


def leaving(catalogue: Catalogue, number: int) -> list[Leaving]:
    """The samples that an erasure removes."""
    return [Leaving(*row) for row in catalogue.all("SELECT id, unit, split FROM leaving WHERE erasure = ?", number)]


def count_leaving(catalogue: Catalogue) -> int:
    """How many samples erasures under way remove."""
    row = catalogue.one("SELECT count(*) FROM leaving")
    return row[0] if row else 0


def erasures_of(catalogue: Catalogue, ids: Sequence[str]) -> dict[str, int]:
    """Those of the samples that erasures under way remove, each with the number of its erasure."""
    return dict(catalogue.among("SELECT id, erasure FROM leaving WHERE id {}", ids))


def accept_erasure(
    transaction: Transaction,
    number: int,
    rows: Sequence[Row],
    *,
    instant: bool,
    received: str,
    reason: str,
    opening: str,
) -> None:
    """Add an accepted erasure: its samples move to the journal, and their units become dirty."""
    values = (number, ACCEPTED, int(instant), received, len(rows), reason, opening)
    transaction.execute(
        "INSERT INTO erasures (number, state, instant, received, samples, reason, opening) VALUES (?,?,?,?,?,?,?)",
        values,
    )
    transaction.executemany(
        "INSERT INTO leaving VALUES (?, ?, ?, ?)", [(row.id, number, row.unit, row.split) for row in rows]
    )
    inventory.remove_samples(transaction, [row.id for row in rows])
    inventory.mark_units_dirty(transaction, {row.unit for row in rows})


def set_erasure_state(transaction: Transaction, number: int, state: str) -> None:
    """Set the state of an erasure."""
    transaction.execute("UPDATE erasures SET state = ? WHERE number = ?", (state, number))


def retry_unverified(transaction: Transaction, number: int) -> None:
    """Let an erasure that could not be verified continue with retraining."""
    sql = "UPDATE erasures SET state = ? WHERE number = ? AND state = ?"
    transaction.execute(sql, (RETRAINING, number, UNVERIFIED))


def complete_instant(transaction: Transaction) -> None:
    """Move all instant erasures to done: the missing groups are built."""
    transaction.execute("UPDATE erasures SET state = ? WHERE state = ?", (DONE, INSTANT))


def finish_erasure(
    transaction: Transaction, number: int, state: str, *, finished: str, certificate: int, marks: Iterable[str]
) -> None:
    """End an erasure: empty its journal, record `marks` as forgotten under this certificate; the catalogue is dirty."""
    forgotten = [(mark, certificate) for mark in sorted(marks)]
    transaction.executemany("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", forgotten)
    transaction.execute("DELETE FROM leaving WHERE erasure = ?", (number,))
    sql = "UPDATE erasures SET state = ?, finished = ?, opening = '{}' WHERE number = ?"
    transaction.execute(sql, (state, finished, number))
    transaction.mark_dirty()


# What was forgotten: keyed hashes (marks) of names


def drop_marks(transaction: Transaction) -> None:
    """Delete the marks of everything that was forgotten or asked: their key is destroyed."""
    for table in ("forgotten", "request_marks"):
        transaction.execute(f"DELETE FROM {table}")
    transaction.execute("UPDATE requests SET key = NULL")
    transaction.execute("UPDATE samples SET content = NULL")  # the next command that writes hashes them anew


def certificate_of(catalogue: Catalogue, mark: str) -> int | None:
    """The number of the certificate under which this mark was forgotten; None if it was not."""
    row = catalogue.one("SELECT certificate FROM forgotten WHERE mark = ?", mark)
    return row[0] if row else None


def certificates_of(catalogue: Catalogue, marks: Sequence[str]) -> dict[str, int]:
    """Those of the marks that were forgotten, each with the number of its certificate."""
    sql = "SELECT mark, certificate FROM forgotten WHERE mark {}"
    return dict(catalogue.among(sql, marks))


def forgotten_marks(catalogue: Catalogue) -> set[str]:
    """The marks of everything that was forgotten."""
    return {mark for (mark,) in catalogue.all("SELECT mark FROM forgotten")}


def is_forgotten(catalogue: Catalogue, mark: str) -> bool:
    """Whether this mark was forgotten."""
    return certificate_of(catalogue, mark) is not None


def last_forgotten_certificate(catalogue: Catalogue) -> int:
    """The highest number of a certificate under which something was forgotten; 0 if nothing was."""
    row = catalogue.one("SELECT max(certificate) FROM forgotten")
    return (row[0] or 0) if row else 0
