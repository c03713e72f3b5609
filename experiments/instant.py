"""Instant forgetting: whole shards leave, nothing is retrained; the paper's figure of relative accuracy, and accuracy.

    shardgraph experiment instant

The paper finds that SAFE falls slower than SISA. Here it falls faster, from higher up: see docs/experiments.md.
"""

from typing import Any

from experiments.records import Records
from experiments.result import COLOURS, Result, Table

WHO = ("SAFE", "SISA", "ProtoSISA", "Ours")
Curves = dict[str, list[float]]


def show(records: Records) -> Result:
    """Relative accuracy by the share of shards gone, mean over data sets and seeds."""
    sets = [name for name in records.sets if any(records.of(name, study="instant"))]
    steps = sorted({r["gone"] for name in sets for r in records.of(name, study="instant")})
    curves = {who: [_mean(records, sets, who, gone, relative=True) for gone in steps] for who in WHO}
    heights = {who: [_mean(records, sets, who, gone) for gone in steps] for who in WHO}
    shards = next(r["n"] for name in sets for r in records.of(name, study="instant"))
    about = (
        f"Accuracy relative to that of all {shards} shards while shards leave in random order with every adapter that "
        f"learned from them; nothing is retrained, prototypes are subtracted. Mean over {', '.join(sets)} and their "
        "seeds; a method is averaged over the sets where it was measured."
    )
    both = {"relative accuracy, %": curves, "accuracy, %": heights}
    tables = [_table(title, steps, found) for title, found in both.items()]
    return Result("instant", about, tables, lambda figure: _draw(figure, steps, both), (11, 4))


def _table(title: str, steps: list[float], found: Curves) -> Table:
    rows = [[f"{100 * gone:.0f}%", *(f"{found[who][i]:.1f}" for who in WHO)] for i, gone in enumerate(steps)]
    return Table(title, ["shards gone", *WHO], rows)


def _mean(records: Records, sets: list[str], who: str, gone: float, *, relative: bool = False) -> float:
    """The mean accuracy over data sets and seeds; relative to what it was at first, if that is asked for."""
    found = []
    for name in sets:
        first = {r["seed"]: r["accuracy"] for r in records.of(name, study="instant", rival=who, gone=0.0)}
        now = {r["seed"]: r["accuracy"] for r in records.of(name, study="instant", rival=who, gone=gone)}
        found += [100 * now[seed] / first[seed] if relative else now[seed] for seed in now if seed in first]
    return sum(found) / len(found)


def _draw(figure: Any, steps: list[float], both: dict[str, Curves]) -> None:
    for axes, (title, curves) in zip(figure.subplots(1, 2), both.items(), strict=True):
        for who, values in curves.items():
            axes.plot([100 * s for s in steps], values, marker="o", ms=3, color=COLOURS[who], label=who)
        axes.set(xlabel="shards gone, %", ylabel=title)
    figure.axes[0].legend(frameon=False)
