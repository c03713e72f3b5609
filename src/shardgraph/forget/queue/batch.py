"""Which waiting requests are carried out together: those that wait for the same groups, the most urgent first."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from shardgraph.forget.context import Context
from shardgraph.forget.erase.plan import groups_by_request
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import inventory, requests
from shardgraph.storage.tables.requests import Request

MOST = 10_000  # requests that are looked at together


def next_batch(context: Context, grace: float = 0.0) -> list[int]:
    """The requests to carry out now: of those that are due, the one whose deadline comes first, and all that share
    groups with it.

    A request waits for `grace` seconds first, in which it can be cancelled, unless its deadline is nearer.
    """
    waiting = due_requests(context.catalogue, grace)
    return group_requests(waiting[0], _touched(context, waiting)) if waiting else []


def due_requests(catalogue: Catalogue, grace: float = 0.0) -> list[int]:
    """The waiting requests whose time has come, the nearest deadline first."""
    waiting = requests.requests_after(catalogue, states=(requests.INSTANT,), limit=MOST)
    ordered = sorted(waiting, key=lambda request: (datetime.fromisoformat(request.deadline), request.number))
    return [request.number for request in ordered if _is_due(request, grace)]


def group_requests(first: int, touched: Mapping[int, set[str]]) -> list[int]:
    """`first` and all that share something with it, or with one that does: each group is rebuilt once."""
    batch, reach = [first], set(touched[first])
    left = [number for number in touched if number != first]
    while joining := [number for number in left if touched[number] & reach]:
        batch += joining
        left = [number for number in left if number not in joining]
        reach |= {name for number in joining for name in touched[number]}
    return batch


def unite_requests(wishes: Sequence[ForgetRequest]) -> ForgetRequest:
    """One request for all that these name."""

    def named(kind: str) -> tuple[str, ...]:
        return tuple(sorted({name for one in wishes for name in getattr(one, kind)}))

    return ForgetRequest(named("samples"), named("sources"), named("subjects"), named("shards"), named("labels"))


def _touched(context: Context, numbers: Sequence[int]) -> dict[int, set[str]]:
    """What carrying out every request rebuilds and rewrites: groups, and files of samples."""
    catalogue = context.catalogue
    rows = {n: tuple(inventory.find_by_id(catalogue, requests.withheld_by(catalogue, [n]))) for n in numbers}
    groups = groups_by_request(context.store, context.config, rows)
    return {n: {group.name for group in groups[n]} | {row.unit for row in rows[n]} for n in numbers}


def _is_due(request: Request, grace: float) -> bool:
    time, wait = datetime.now(UTC), timedelta(seconds=grace)
    received, deadline = (datetime.fromisoformat(text) for text in (request.received, request.deadline))
    return received > time or time >= received + wait or time + wait >= deadline  # a clock may have been set back
