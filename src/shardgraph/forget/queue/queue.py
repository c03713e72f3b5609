"""The queue of forget requests: which requests wait, the state of each, and the batches that carry them out.

    received -> instant -> erasing -> retraining -> verified -> done
                   |          (from here on it cannot be cancelled)
                   +-> cancelled                      any -> failed, with a reason; its data stays withheld

A request whose files are damaged stays instant, with a reason, until they are restored.

A request enters a state in the transaction that makes the state true, or after it has become true. While a request
waits, its samples are listed as withheld, and nothing that learned from them is served (`views.served`).

One erasure carries out a batch of requests (`erase.execute`), and its steps move all of them. A batch is the waiting
request with the nearest deadline and all requests that wait for the same groups.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shardgraph.errors import DamagedFile, InputError, WorkspaceError
from shardgraph.forget.context import Context
from shardgraph.forget.erase.plan import ForgetRequest, groups_by_request
from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.tables import inventory, ledger, requests
from shardgraph.storage.tables.requests import (
    CANCELLED,
    DONE,
    ERASING,
    FAILED,
    FINAL,
    INSTANT,
    OPEN,
    RECEIVED,
    RETRAINING,
    STATES,
    VERIFIED,
    NewRequest,
    Request,
    withheld_by,
)
from shardgraph.storage.tables.requests import move_requests_of as follow
from shardgraph.storage.tables.requests import newest_requests as newest
from shardgraph.storage.tables.requests import requests_after as listed
from shardgraph.storage.tables.requests import was_named_by as asked_by

__all__ = [
    "CANCELLED",
    "DONE",
    "ERASING",
    "FAILED",
    "FINAL",
    "INSTANT",
    "OPEN",
    "RECEIVED",
    "RETRAINING",
    "STATES",
    "VERIFIED",
    "Request",
    "Submission",
    "asked_by",
    "cancel",
    "close",
    "delay",
    "enter",
    "fail",
    "failure_reason",
    "find",
    "find_repeated",
    "follow",
    "listed",
    "move",
    "newest",
    "now",
    "settle",
    "start",
    "waiting_since",
    "wish",
    "withheld_by",
]
DAMAGED = (
    "it waits: a file that it needs is damaged or missing; `shardgraph verify` names it: restore it from a backup, and "
    "the request is carried out"
)
PATIENCE = timedelta(days=30)  # the deadline of a request that names none
MOST = 10_000  # requests that are considered for one batch


@dataclass(frozen=True)
class Submission:
    """A request to be entered: who asks for what, by when; `key` and `body` identify a repeated request.

    `named` holds (kind, name) pairs that the asker gave and `request` replaces by samples. With `earlier`, all that is
    named left with that request of the same asker; this one takes no sample and gets the same certificate.
    """

    request: ForgetRequest
    asker: str = ""
    deadline: datetime | None = None
    key: str | None = None
    body: str = ""
    named: tuple[tuple[str, str], ...] = ()
    earlier: int | None = None


# The life of a request


def enter(
    transaction: Transaction, what: Submission, received: datetime, ids: Sequence[str], marks: Iterable[str] = ()
) -> int:
    """Add a request, withhold its samples, and record the event; returns its number.

    `marks` are keyed hashes of what it names; they show who asked for what after the names are deleted.
    """
    new = NewRequest(
        received=received.isoformat(),
        deadline=(what.deadline or received + PATIENCE).astimezone(UTC).isoformat(),
        asker=what.asker,
        reason=what.request.reason,
        wish=json.dumps({k: v for k, v in what.request.to_json().items() if k != "reason"}),
        key=what.key,
        body=what.body,
    )
    number = requests.add_request(transaction, new, ids, marks)
    ledger.add_event(transaction, RECEIVED, {"entry": number, "samples": len(ids)})
    return number


def move(transaction: Transaction, numbers: Iterable[int], state: str, *, of: Sequence[str] = STATES) -> int:
    """Move requests that are in one of the states `of` to another state; returns how many were moved."""
    return len(requests.move_requests(transaction, numbers, state, of=of))


def start(transaction: Transaction, numbers: Sequence[int], erasure: int) -> None:
    """Assign waiting requests to the erasure that carries them out; from now on they cannot be cancelled."""
    if move(transaction, numbers, ERASING, of=(INSTANT,)) != len(numbers):
        raise WorkspaceError("a request of the batch was cancelled meanwhile; choose the batch again")
    for number in numbers:
        requests.set_erasure(transaction, number, erasure)
        requests.release_samples(transaction, number)


def close(transaction: Transaction, erasure: int, certificate: int, *, lacking: str = "") -> None:
    """Record the certificate of an erasure's requests, and delete what they named; `settle` moves them to done.

    If groups are lacking, the requests fail with `lacking` as the reason.
    """
    numbers = requests.close_requests_of(transaction, erasure, certificate)
    if lacking:
        fail(transaction, numbers, f"erased, but groups could not be rebuilt: {lacking}")


def settle(catalogue: Catalogue) -> list[int]:
    """Move closed requests to done and return their numbers; call it once `scrub` has emptied the catalogue's log."""
    numbers = requests.closed_requests(catalogue)
    if numbers:
        with catalogue.transaction() as transaction:
            move(transaction, numbers, DONE)
    return numbers


def fail(transaction: Transaction, numbers: Iterable[int], reason: str) -> None:
    """Move requests to failed, with a reason that contains no names; their samples stay withheld."""
    requests.fail_requests(transaction, numbers, reason)


def delay(transaction: Transaction, number: int, reason: str) -> None:
    """Record why a waiting request waits longer, in a text that contains no names."""
    requests.set_reason(transaction, number, reason)


def failure_reason(error: Exception) -> str:
    """Why a request failed; the text contains no names, because it stays when the names are deleted."""
    if isinstance(error, DamagedFile):
        return "a file that it needs is torn or was changed: `shardgraph verify` names it, restore it from a backup"
    return f"{type(error).__name__}: `shardgraph verify` says what is wrong"


def cancel(
    catalogue: Catalogue, number: int, *, release: bool = False, also: Callable[[Transaction], None] | None = None
) -> None:
    """Cancel a waiting request and release its samples; with `release`, its key may be used again.

    `also` is called within the transaction.
    """
    with catalogue.transaction() as transaction:
        found = find(catalogue, number)
        waits = found.erasure is None
        if not waits or not move(transaction, [number], CANCELLED, of=(RECEIVED, INSTANT, FAILED)):
            raise WorkspaceError(f"request {number} is {found.state}: it can be cancelled until erasing starts")
        requests.release_samples(transaction, number)
        requests.drop_names(transaction, number, key=release)
        ledger.add_event(transaction, CANCELLED, {"entry": number})
        if also is not None:
            also(transaction)
    catalogue.scrub()


def now() -> str:
    """The current time, as the catalogue stores it."""
    return datetime.now(UTC).isoformat()


# Looking up a request


def find(catalogue: Catalogue, number: int) -> Request:
    """A request by its number, with its history; an error if there is none."""
    found = requests.find_request(catalogue, number)
    if found is None:
        raise InputError(f"there is no request {number}")
    return found


def find_repeated(catalogue: Catalogue, key: str, body: str) -> int | None:
    """The request that used this key before, if any; an error if the hash of its body differs."""
    found = requests.find_repeated(catalogue, key)
    if found and found[1] != body:
        raise WorkspaceError("an Idempotency-Key must belong to one request, this one was used for another one")
    return found[0] if found else None


def wish(catalogue: Catalogue, number: int) -> ForgetRequest:
    """What a request names; an empty request once it is closed."""
    names, reason = requests.find_wish(catalogue, number) or ("{}", "")
    return ForgetRequest(**{kind: tuple(given) for kind, given in json.loads(names).items()}, reason=reason)


# Batches


def next_batch(context: Context, grace: float = 0.0, without: Collection[int] = ()) -> list[int]:
    """The requests to carry out now: the due request with the nearest deadline, and all that share groups with it.

    A request becomes due after `grace` seconds, in which it can be cancelled, or earlier if its deadline is nearer.
    Those in `without` are left out.
    """
    waiting = [number for number in due_requests(context, grace) if number not in without]
    return group_requests(waiting[0], _touched(context, waiting)) if waiting else []


def due_requests(context: Context, grace: float = 0.0) -> list[int]:
    """The waiting requests that are due, the nearest deadline first."""
    found = requests.requests_after(context.catalogue, states=(RECEIVED, INSTANT), limit=MOST)
    context.waiting_since = {one.number: waiting_since(context, one) for one in found}  # others wait no more
    time, clock = context.now(), context.monotonic()
    waiting = [request for request in found if request.state == INSTANT]
    ordered = sorted(waiting, key=lambda request: (datetime.fromisoformat(request.deadline), request.number))
    return [one.number for one in ordered if _is_due(one, time, clock - context.waiting_since[one.number], grace)]


def waiting_since(context: Context, request: Request) -> float:
    """When a request was received, by the monotonic clock of this process.

    The system's clock is asked once, when this process first sees the request; if it is set later, the grace period
    stays as long as it is. A request of the future counts as received now: the clock was set back in between.
    """
    if (known := context.waiting_since.get(request.number)) is not None:
        return known
    age = max(0.0, (context.now() - datetime.fromisoformat(request.received)).total_seconds())
    return context.waiting_since.setdefault(request.number, context.monotonic() - age)


def group_requests(first: int, touched: Mapping[int, set[str]]) -> list[int]:
    """`first` and all requests that share a group or unit with it, directly or through others: each is rebuilt once."""
    batch, reach = [first], set(touched[first])
    left = [number for number in touched if number != first]
    while joining := [number for number in left if touched[number] & reach]:
        batch += joining
        left = [number for number in left if number not in joining]
        reach |= {name for number in joining for name in touched[number]}
    return batch


def unite_requests(wishes: Sequence[ForgetRequest]) -> ForgetRequest:
    """One request that names everything that these name."""

    def named(kind: str) -> tuple[str, ...]:
        return tuple(sorted({name for one in wishes for name in getattr(one, kind)}))

    return ForgetRequest(named("samples"), named("sources"), named("subjects"), named("shards"), named("labels"))


def _touched(context: Context, numbers: Sequence[int]) -> dict[int, set[str]]:
    """For every request, the groups that it rebuilds and the units that it rewrites."""
    catalogue = context.catalogue
    rows = {n: tuple(inventory.find_by_id(catalogue, requests.withheld_by(catalogue, [n]))) for n in numbers}
    groups = groups_by_request(context.store, context.config, rows)
    return {n: {group.name for group in groups[n]} | {row.unit for row in rows[n]} for n in numbers}


def _is_due(request: Request, time: datetime, age: float, grace: float) -> bool:
    """Whether the grace period of a request is over, or its deadline comes first."""
    return age >= grace or time + timedelta(seconds=grace) >= datetime.fromisoformat(request.deadline)
