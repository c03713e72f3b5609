"""The content of a report on a workspace. It names sources and shards, but no samples."""

from typing import Any

import shardgraph
from shardgraph.cli.command import format_bytes
from shardgraph.cli.report.content import Bar, Content

LAST = 10  # certificates that are shown


def summarize(ws: "shardgraph.Workspace", name: str) -> Content:
    """What the workspace holds, serves and has forgotten."""
    status = ws.status()
    if not status["trained"]:
        return Content(title=name, lead="This workspace is not trained yet.", figures=_figures(status, None))
    graph = ws.views.graph()
    found = ws.evaluate() if graph.shards and ws.views.held_out() is not None else None
    last = ws.certificates.last()
    return Content(
        title=name,
        lead=_lead(status),
        figures=_figures(status, found),
        graph=graph,
        drawing_words="A dot is a shard. Its area shows the number of its samples, its colour the source. Connected "
        "shards learn from each other; an arrow goes from the shard that learns to the shard that it learns from.",
        accuracy=_accuracy(found),
        cost=_cost(graph.samples, graph.expected, graph.worst),
        cost_words="Samples that the training reads again."
        + (" The average is weighted by the rates of the sources." if graph.by_rates else ""),
        certificates=tuple(ws.certificates.load(n).to_json() for n in range(last, max(0, last - LAST), -1)),
        facts=_facts(status, ws.config.backbone),
    )


def _lead(status: dict[str, Any]) -> str:
    if not status["samples"]["train"]:
        return "Every training sample was forgotten, and no group is served."
    missing = status["groups"]["missing"]
    if missing:
        what = "1 group is withdrawn and waits" if missing == 1 else f"{missing} groups are withdrawn and wait"
        return f"{what} for repair; the other groups and the prototypes are served."
    if privacy := status["privacy"]:
        what = f"{privacy['groups']} groups learned from other shards with differential privacy"
        return f"{what}; the other groups are built from the retained samples alone."
    return "Every group is built from the retained samples alone."


def _figures(status: dict[str, Any], found: dict[str, Any] | None) -> tuple[tuple[str, str], ...]:
    figures = [("accuracy", f"{found['accuracy']:.1%}")] if found else []
    requests = sum(status["requests"].values())
    return (
        *figures,
        ("training samples", f"{status['samples']['train']:,}"),
        ("shards", f"{status['shards']:,}"),
        ("groups served", f"{status['groups']['serving']:,}"),
        ("forget requests", f"{requests:,}"),
    )


def _accuracy(found: dict[str, Any] | None) -> tuple[Bar, ...]:
    if found is None:
        return ()
    words = f"{found['accuracy']:.1%}"
    return (Bar(f"now, {found['correct']} of {found['samples']} correct", found["accuracy"], words),)


def _cost(samples: int, expected: float, worst: int) -> tuple[Bar, ...]:
    if not samples:
        return ()
    rows = (("one sample, on average", expected), ("one sample, at most", worst))
    bars = [Bar(name, count / samples, f"{count:,.0f} samples, {count / samples:.1%}") for name, count in rows]
    return (Bar("full training", 1.0, f"{samples:,} samples", main=False), *bars)


def _facts(status: dict[str, Any], backbone: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return (
        ("model", status["model_digest"] or "none yet"),
        ("backbone", backbone["name"]),
        ("classes", str(status["classes"])),
        ("graph", status["topology"]["kind"]),
        ("held out", str(status["samples"]["test"])),
        ("in the inbox", str(status["waiting"])),
        ("lambda", f"{status['lambda']:.3f}"),
        ("disk", format_bytes(status["disk_bytes"])),
    )
