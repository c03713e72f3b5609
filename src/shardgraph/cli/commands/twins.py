"""`twins`: samples with the same content; and the twins that a plan would leave behind."""

from typing import Any

import shardgraph
from shardgraph.cli.command import check_threshold, open_workspace, print_json, print_note, print_table
from shardgraph.cli.options.shared import Json, Samples, Threshold, WorkspacePath

SHOWN = 50  # pairs that are printed


def twins(workspace: WorkspacePath, sample: Samples = None, threshold: Threshold = 0.98, as_json: Json = False) -> None:
    """Find samples with the same content, exactly or nearly: all pairs, or the twins of --sample."""
    check_threshold(threshold)
    with open_workspace(workspace) as ws:
        if sample:
            ws.plan(shardgraph.ForgetRequest(samples=tuple(sample)))  # raises for samples that were never here
        found = ws.twins(sample or None, threshold)
    exact = sum(twin.exact for twin in found)
    if as_json:
        pairs = [
            {"sample": t.sample, "other": t.other, "cosine": t.cosine, "exact": t.exact, "in": [*map(_place, t.units)]}
            for t in found
        ]
        print_json({"threshold": threshold, "exact": exact, "near": len(found) - exact, "pairs": pairs})
        return
    rows = [(t.sample, t.other, "equal" if t.exact else f"{t.cosine:.4f}", _place(t.units[1])) for t in found[:SHOWN]]
    title = f"{exact} pairs with equal content, {len(found) - exact} with a cosine of at least {threshold}"
    print_table(title, ("sample", "twin", "cosine", "the twin is in"), rows)
    if len(found) > SHOWN:
        print_note(f"and {len(found) - SHOWN} more: --json gives all")


def remaining_twins(
    ws: "shardgraph.Workspace", plan: "shardgraph.ForgetPlan", threshold: float, *, near: bool
) -> dict[str, Any]:
    """The twins that would remain after a forget, as figures; with `near`, every file is read for near ones, too."""
    leaving = {row.id for row in plan.rows}
    exact = {row.id: _place(row.unit) for row in ws.exact_copies(plan).rows}
    pairs = [t for t in ws.twins(leaving, threshold) if t.other not in leaving] if near and leaving else []
    others = {twin.other: _place(twin.units[1]) for twin in pairs} | exact
    return {
        "exact": len(exact),
        "near": len(others) - len(exact) if near else None,
        "threshold": threshold,
        "samples": sorted(others),
        "in": sorted(set(others.values())),
    }


def twin_rows(found: dict[str, Any]) -> list[tuple[str, object]]:
    """The figures of `remaining_twins` as rows of a table."""
    where = ", ".join(found["in"])
    rows: list[tuple[str, object]] = []
    if found["exact"]:
        rows.append(("twins", f"{_others(found['exact'])} the same content, in {where}; --with-twins selects them too"))
    if found["near"]:
        words = f"{_others(found['near'])} nearly the same content (cosine at least {found['threshold']}), in {where}"
        rows.append(("near twins", words))
    return rows


def _place(unit: str) -> str:
    """The place of a file of samples: its shard, the held-out samples or the inbox."""
    kind, _, name = unit.partition(":")
    return {"shard": name, "test": "held out", "inbox": "the inbox"}[kind]


def _others(count: int) -> str:
    return f"{count} other samples have" if count > 1 else "1 other sample has"
