"""Which waiting requests are carried out together: those that wait for the same groups, the most urgent first."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from shardgraph.forget.config import Config
from shardgraph.forget.erase.plan import groups_by_entry
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.queue import queue
from shardgraph.storage.database import Catalogue
from shardgraph.storage.store import Store


def next_batch(store: Store, config: Config, grace: float = 0.0) -> list[int]:
    """The entries to carry out now: of those that are due, the one whose deadline comes first, and all that share
    groups with it.

    An entry waits for `grace` seconds first, in which it can be cancelled, unless its deadline is nearer.
    """
    waiting = due(store.catalogue, grace)
    if not waiting:
        return []
    return together(waiting[0], _touched(store, config, waiting))


def due(catalogue: Catalogue, grace: float = 0.0) -> list[int]:
    """The waiting entries whose time has come, the nearest deadline first."""
    waiting = queue.listed(catalogue, states=(queue.INSTANT,), limit=10_000)
    ordered = sorted(waiting, key=lambda entry: (datetime.fromisoformat(entry.deadline), entry.number))
    return [entry.number for entry in ordered if _due(entry, grace)]


def together(first: int, touched: Mapping[int, set[str]]) -> list[int]:
    """`first` and all that share something with it, or with one that does: each group is rebuilt once."""
    batch, reach = [first], set(touched[first])
    left = [number for number in touched if number != first]
    while joining := [number for number in left if touched[number] & reach]:
        batch += joining
        left = [number for number in left if number not in joining]
        reach |= {name for number in joining for name in touched[number]}
    return batch


def union(requests: Sequence[ForgetRequest]) -> ForgetRequest:
    """One request for all that these name."""

    def named(kind: str) -> tuple[str, ...]:
        return tuple(sorted({name for one in requests for name in getattr(one, kind)}))

    return ForgetRequest(named("samples"), named("sources"), named("subjects"), named("shards"), named("labels"))


def _touched(store: Store, config: Config, numbers: Sequence[int]) -> dict[int, set[str]]:
    """What every entry has rebuilt and rewritten: groups, and files of samples."""
    catalogue = store.catalogue
    rows = {number: tuple(catalogue.rows("id", queue.withheld_by(catalogue, [number]))) for number in numbers}
    groups = groups_by_entry(store, config, rows)
    return {n: {group.name for group in groups[n]} | {row.unit for row in rows[n]} for n in numbers}


def _due(entry: queue.Entry, grace: float) -> bool:
    time, wait = datetime.now(UTC), timedelta(seconds=grace)
    received, deadline = (datetime.fromisoformat(text) for text in (entry.received, entry.deadline))
    return received > time or time >= received + wait or time + wait >= deadline  # a clock may have been set back
