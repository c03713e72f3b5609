"""The overview page: accuracy, adapters in service, deadlines, costs. An owner sees only its own requests."""

import math
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from shardgraph.forget import Measurement
from shardgraph.service.auth.access import CurrentModels, CurrentRuntime
from shardgraph.service.auth.tokens import OWNER
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visitors import PageRoute, Reader
from shardgraph.service.runtime.models import LeasedModels, Models
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.service.runtime.statistics import quantile

LEFT, RIGHT, TOP, BOTTOM = 60, 990, 15, 165  # of the chart, in its own units
router = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)


@router.get("")
def show(request: Request, who: Reader, runtime: CurrentRuntime, models: CurrentModels) -> Response:
    """The first page."""
    owner = who.role == OWNER
    facts: dict[str, Any] = {"owner": owner, "waiting": runtime.statistics.deadlines(who.name if owner else None)}
    if owner:
        return render(request, "overview.html", **facts, sources=runtime.queries.sample_counts(who.sources))
    return render(request, "overview.html", **facts | _workspace_facts(runtime, models))


def _workspace_facts(runtime: Runtime, models: Models) -> dict[str, Any]:
    measurements, served = models.use(lambda leased: (leased.measurements(), _served_facts(runtime, leased)))
    seconds = runtime.statistics.forget_seconds()
    return {
        "served": served,
        "measurements": measurements,
        "chart": make_chart(measurements),
        "costs": runtime.statistics.costs(),
        "median": quantile(seconds, 0.5),
        "slowest": quantile(seconds, 0.99),
    }


def _served_facts(runtime: Runtime, leased: LeasedModels) -> dict[str, int] | None:
    """Adapters and groups in service, and how many a complete model has; None before there is a model."""
    if not leased.exists:
        return None
    expected = runtime.statistics.expected_groups()
    return {
        "adapters": len(leased.whole.average),
        "of": expected.adapters,
        "groups": expected.groups,
        "classes": len(leased.whole.classes),
    }


def make_chart(found: list[Measurement]) -> dict[str, Any] | None:
    """The points of a line, one a measurement, by time, and the levels beside it; None if nothing was measured.

    The scale ends at 1 and begins a tenth below the lowest point, so that small changes are visible.
    """
    if not found:
        return None
    start, end = (_timestamp(one.time) for one in (found[0], found[-1]))
    low = max(0.0, math.floor(10 * min(one.accuracy for one in found) - 0.5) / 10)

    def height(level: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (level - low) / (1 - low), 1)

    def position(time: str) -> float:
        return round(LEFT + (RIGHT - LEFT) * (_timestamp(time) - start) / ((end - start) or 1.0), 1)

    return {
        "points": [(position(one.time), height(one.accuracy)) for one in found],
        "grid": [(level, height(level)) for level in (low, (low + 1) / 2, 1.0)],
    }


def _timestamp(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
