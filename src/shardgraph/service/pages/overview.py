"""The overview: how the model does, what waits, what forgetting has cost. An owner sees its own requests alone."""

import math
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from shardgraph.forget.build.build import wanted_groups
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.queue.statistics import Measurement, costs, deadlines, measurements
from shardgraph.service.access import TheOffice
from shardgraph.service.office import Office
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visiting import Page, Reader
from shardgraph.service.timing import quantile, seconds_to_forget
from shardgraph.service.tokens import OWNER, Caller

LEFT, RIGHT, TOP, BOTTOM = 60, 990, 15, 165  # of the chart, in its own units
router = APIRouter(prefix=PREFIX, route_class=Page, include_in_schema=False)


@router.get("")
def overview(request: Request, who: Reader, office: TheOffice) -> Response:
    """The first page."""
    mine = who.role == OWNER
    catalogue = office.reader.catalogue
    facts: dict[str, Any] = {"mine": mine, "waiting": deadlines(catalogue, who.name if mine else None)}
    return render(request, "overview.html", **facts | (_own(office, who) if mine else _whole(office)))


def _own(office: Office, who: Caller) -> dict[str, Any]:
    sql = "SELECT count(*) FROM samples WHERE source = ?"
    return {"sources": {name: (office.reader.catalogue.one(sql, name) or (0,))[0] for name in who.sources}}


def _whole(office: Office) -> dict[str, Any]:
    catalogue, found = office.reader.catalogue, measurements(office.reader.catalogue)
    taken = seconds_to_forget(catalogue)
    return {
        "served": _served(office),
        "measurements": found,
        "chart": chart(found),
        "costs": costs(catalogue),
        "median": quantile(taken, 0.5) if taken else None,
        "slowest": quantile(taken, 0.99) if taken else None,
    }


def _served(office: Office) -> dict[str, int] | None:
    """Adapters and groups in service, of how many there should be; None before there is a model."""
    state, reader = office.served.state, office.reader
    if state is None:
        return None
    manifest = Manifest.load(reader.root)
    wanted = wanted_groups(reader.store, reader.config, manifest.fingerprint)
    adapters = sum(group.adapters for group in wanted.values())
    return {
        "adapters": len(state.model.average),
        "of": adapters,
        "groups": len(wanted),
        "classes": len(state.model.classes),
    }


def chart(found: list[Measurement]) -> dict[str, Any] | None:
    """The points of a line, one a measurement, by time, and the levels beside it; None if nothing was measured.

    The scale ends at 1 and begins at a tenth below the lowest point, so that small changes can be seen.
    """
    if not found:
        return None
    start, end = (_seconds(one.time) for one in (found[0], found[-1]))
    low = max(0.0, math.floor(10 * min(one.accuracy for one in found) - 0.5) / 10)

    def height(level: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (level - low) / (1 - low), 1)

    def place(time: str) -> float:
        return round(LEFT + (RIGHT - LEFT) * (_seconds(time) - start) / ((end - start) or 1.0), 1)

    return {
        "points": [(place(one.time), height(one.accuracy)) for one in found],
        "grid": [(level, height(level)) for level in (low, (low + 1) / 2, 1.0)],
    }


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
