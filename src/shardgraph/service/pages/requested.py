"""What waits to be forgotten already, so that nobody asks twice without knowing."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardgraph.forget.views.search import COLUMNS
from shardgraph.service.tokens import OWNER, Caller
from shardgraph.storage.database import Catalogue


@dataclass(frozen=True)
class Requested:
    """So many samples wait; `number` is the last request that the caller may see of those they wait for."""

    samples: int
    number: int | None


def requested(catalogue: Catalogue, who: Caller, kind: str, names: Sequence[str]) -> dict[str, Requested]:
    """Of these samples, subjects or sources, those with samples that wait; an owner's are her own."""
    column, marks, mine = COLUMNS[kind], ",".join("?" * len(names)), who.role == OWNER
    among = "w.id" if kind == "sample" else f"s.{column}"
    own = f" AND s.source IN ({','.join('?' * len(who.sources))})" if mine else ""
    # what waits is less than what there is: it is gone through first
    sql = (
        f"SELECT s.{column}, count(DISTINCT w.id), max(CASE WHEN ? IN ('', q.asker) THEN w.entry END)"
        " FROM withheld w CROSS JOIN samples s ON s.id = w.id CROSS JOIN queue q ON q.number = w.entry"
        f" WHERE {among} IN ({marks}){own} GROUP BY s.{column}"
    )
    values = (who.name if mine else "", *names, *(who.sources if mine else ()))
    return {name: Requested(count, number) for name, count, number in catalogue.all(sql, *values)}
