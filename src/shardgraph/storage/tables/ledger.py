"""The ledger: one line for every event, which names no sample; and the account of what private edges have released.

The detail of an event is JSON. `docs/format.md` documents its keys, which do not change: "entry" is the number of a
request, "request" the number of an erasure, "model" and "config" are keyed hashes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shardgraph.storage.catalogue import Catalogue, Transaction


@dataclass(frozen=True)
class Event:
    """One line of the ledger."""

    number: int
    time: str
    event: str
    detail: dict[str, Any]


@dataclass(frozen=True)
class Costs:
    """Samples that erasures have read again, and those that as many full retrainings would have read."""

    erasures: int
    revisited: int
    retraining: int


def add_event(transaction: Transaction, event: str, detail: Mapping[str, object], time: datetime | None = None) -> None:
    """Add an event; its detail names no sample."""
    row = ((time or datetime.now(UTC)).isoformat(), event, json.dumps(dict(detail), sort_keys=True))
    transaction.execute("INSERT INTO ledger (time, event, detail) VALUES (?, ?, ?)", row)


def add_to_last_event(transaction: Transaction, more: Mapping[str, object]) -> None:
    """Add keys to the detail of the last event, in the transaction that added the event."""
    number, detail = transaction.execute("SELECT number, detail FROM ledger ORDER BY number DESC LIMIT 1").fetchone()
    told = json.dumps(json.loads(detail) | dict(more), sort_keys=True)
    transaction.execute("UPDATE ledger SET detail = ? WHERE number = ?", (told, number))


def last_event_number(catalogue: Catalogue) -> int:
    """The number of the last event; 0 before the first."""
    row = catalogue.one("SELECT max(number) FROM ledger")
    return (row[0] or 0) if row else 0


def events_after(catalogue: Catalogue, after: int, limit: int) -> list[Event]:
    """The events with a number above `after`, in order."""
    return list(_events(catalogue, "WHERE number > ? ORDER BY number LIMIT ?", after, limit))


def last_events(catalogue: Catalogue, event: str, limit: int) -> list[Event]:
    """The last events of this name, the newest first."""
    return list(_events(catalogue, "WHERE event = ? ORDER BY number DESC LIMIT ?", event, limit))


def has_event(catalogue: Catalogue, event: str) -> bool:
    """Whether there is an event of this name."""
    return catalogue.one("SELECT 1 FROM ledger WHERE event = ? LIMIT 1", event) is not None


def find_serving(catalogue: Catalogue, state: str) -> Event | None:
    """The event that announced a served state, by the id that its predictions carry."""
    return next(_events(catalogue, "WHERE event = 'serving' AND json_extract(detail, '$.state') = ?", state), None)


def last_models(catalogue: Catalogue, limit: int) -> list[tuple[str, str]]:
    """The last events that name a model, the newest first: the event's name, and the model's mark."""
    model = "json_extract(detail, '$.model')"
    sql = f"SELECT event, {model} FROM ledger WHERE {model} IS NOT NULL ORDER BY number DESC LIMIT ?"
    return [(event, mark) for event, mark in catalogue.all(sql, limit)]


def last_trained_config(catalogue: Catalogue) -> str | None:
    """The mark of the configuration of the last training."""
    mark = "json_extract(detail, '$.config')"
    where = f"event IN ('trained', 'rekeyed') AND {mark} IS NOT NULL"
    row = catalogue.one(f"SELECT {mark} FROM ledger WHERE {where} ORDER BY number DESC LIMIT 1")
    return row[0] if row else None


def last_certificate(catalogue: Catalogue) -> int:
    """The number of the last certificate; 0 before the first."""
    row = catalogue.one("SELECT max(json_extract(detail, '$.certificate')) FROM ledger")
    return (row[0] or 0) if row else 0


def last_event_of_input(catalogue: Catalogue, mark: str) -> str | None:
    """The name of the last event about an input, by the mark of the input's name."""
    sql = "SELECT event FROM ledger WHERE json_extract(detail, '$.input') = ? ORDER BY number DESC LIMIT 1"
    row = catalogue.one(sql, mark)
    return row[0] if row else None


def count_costs(catalogue: Catalogue) -> Costs:
    """What all accepted erasures cost; events of versions that did not record it are left out."""
    sql = (
        "SELECT count(*), sum(json_extract(detail, '$.revisited')), sum(json_extract(detail, '$.of')) FROM ledger"
        " WHERE event = 'accepted' AND json_extract(detail, '$.of') IS NOT NULL"
    )
    return Costs(*(value or 0 for value in catalogue.one(sql) or (0, 0, 0)))


def drop_measurements(transaction: Transaction) -> None:
    """Delete the accuracies that were measured so far: their models had learned what is forgotten now."""
    transaction.execute("DELETE FROM ledger WHERE event = 'measured'")


# Names of lines in the erasure log, a file outside the workspace


def logged_names(catalogue: Catalogue) -> set[str]:
    """The names of all lines of the erasure log that the ledger holds."""
    told = catalogue.all("SELECT json_extract(detail, '$.record') FROM ledger")
    again = catalogue.all("SELECT r.value FROM ledger, json_each(detail, '$.records') r WHERE event = 'replayed'")
    return {name for (name,) in (*told, *again) if name is not None}


def logged_name_of(catalogue: Catalogue, request: int) -> str | None:
    """The name of the erasure log's line about a request; None if there is none."""
    sql = (
        "SELECT json_extract(detail, '$.record') FROM ledger"
        " WHERE event IN ('received', 'recording') AND json_extract(detail, '$.entry') = ?"
        " AND json_extract(detail, '$.record') IS NOT NULL"
    )
    row = catalogue.one(sql, request)
    return row[0] if row else None


def known_log_end(catalogue: Catalogue) -> str | None:
    """The last line of the erasure log that this catalogue knows, as JSON text; None if no log is kept."""
    row = catalogue.one("SELECT value FROM state WHERE name = 'record'")
    return row[0] if row else None


def save_known_log_end(transaction: Transaction, text: str) -> None:
    """Replace what the catalogue knows of the end of the erasure log."""
    transaction.execute("INSERT OR REPLACE INTO state VALUES ('record', ?)", (text,))


# The account of private edges


def privacy_account(catalogue: Catalogue) -> str | None:
    """The account as JSON text; None if nothing was private yet."""
    row = catalogue.one("SELECT value FROM privacy WHERE name = 'book'")
    return row[0] if row else None


def save_privacy_account(transaction: Transaction, account: str) -> None:
    """Replace the account, given as JSON text."""
    transaction.execute("INSERT OR REPLACE INTO privacy VALUES ('book', ?)", (account,))


def _events(catalogue: Catalogue, where: str, *values: object) -> Iterator[Event]:
    sql = f"SELECT number, time, event, detail FROM ledger {where}"
    for number, time, event, detail in catalogue.all(sql, *values):
        yield Event(number, time, event, json.loads(detail))
