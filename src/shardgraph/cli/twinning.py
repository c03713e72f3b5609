"""`twins`: other samples that hold the same content; and what a plan says about them."""

from typing import Any

import shardgraph
from shardgraph.cli.opening import opened
from shardgraph.cli.options import Json, Sample, Threshold, Where
from shardgraph.cli.output import print_json, print_table, say

SHOWN = 50  # pairs on a terminal


def twins(workspace: Where, sample: Sample = None, threshold: Threshold = 0.98, as_json: Json = False) -> None:
    """Find samples that hold the same content, exactly or nearly; all pairs, or the twins of --sample."""
    with opened(workspace) as ws:
        if sample:
            ws.plan(shardgraph.ForgetRequest(samples=tuple(sample)))  # which knows what was never here
        found = ws.twins(sample or None, threshold)
    exact = sum(twin.exact for twin in found)
    if as_json:
        pairs = [
            {"sample": t.sample, "other": t.other, "cosine": t.cosine, "exact": t.exact, "in": [*map(place, t.units)]}
            for t in found
        ]
        print_json({"threshold": threshold, "exact": exact, "near": len(found) - exact, "pairs": pairs})
        return
    rows = [(t.sample, t.other, "equal" if t.exact else f"{t.cosine:.4f}", place(t.units[1])) for t in found[:SHOWN]]
    title = f"{exact} pairs with equal content, {len(found) - exact} as near as {threshold}"
    print_table(title, ("sample", "twin", "cosine", "the twin is in"), rows)
    if len(found) > SHOWN:
        say(f"and {len(found) - SHOWN} more: --json gives all")


def place(unit: str) -> str:
    """Where a file of samples stands, in words."""
    kind, _, name = unit.partition(":")
    return {"shard": name, "test": "held out", "inbox": "the inbox"}[kind]


def twins_of(ws: "shardgraph.Workspace", orders: "shardgraph.ForgetPlan", threshold: float) -> dict[str, Any]:
    """The twins that a plan would leave behind, in figures."""
    leaving = {row.id for row in orders.rows}
    pairs = [t for t in (ws.twins(leaving, threshold) if leaving else ()) if t.other not in leaving]
    exact = {twin.other for twin in pairs if twin.exact}
    others = {twin.other: place(twin.units[1]) for twin in pairs}
    return {
        "exact": len(exact),
        "near": len(others) - len(exact),
        "threshold": threshold,
        "samples": sorted(others),
        "in": sorted(set(others.values())),
    }


def twin_rows(found: dict[str, Any]) -> list[tuple[str, object]]:
    """The same in words."""
    where = ", ".join(found["in"])
    rows: list[tuple[str, object]] = []
    if found["exact"]:
        rows.append(("twins", f"{_others(found['exact'])} the same content, in {where}; --with-twins takes them too"))
    if found["near"]:
        words = f"{_others(found['near'])} nearly the same content (cosine from {found['threshold']}), in {where}"
        rows.append(("near twins", words))
    return rows


def _others(count: int) -> str:
    return f"{count} other samples hold" if count > 1 else "1 other sample holds"
