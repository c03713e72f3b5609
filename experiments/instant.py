"""Instant forgetting: whole shards leave, nothing is retrained; the paper's figure of relative accuracy.

    shardgraph experiment instant

Expect SAFE to fall slower than SISA, and all to fall faster towards the end.
"""

from typing import Any

from experiments.records import Records
from experiments.shown import COLOURS, Shown, Table

WHO = ("SAFE", "SISA", "ProtoSISA", "Ours")


def show(records: Records) -> Shown:
    """Relative accuracy by the share of shards gone, mean over data sets and seeds."""
    sets = [name for name in records.sets if any(records.of(name, study="instant"))]
    steps = sorted({r["gone"] for name in sets for r in records.of(name, study="instant")})
    curves = {who: [relative(records, sets, who, gone) for gone in steps] for who in WHO}
    shards = next(r["n"] for name in sets for r in records.of(name, study="instant"))
    about = (
        f"Accuracy relative to that of all {shards} shards while shards leave in random order with every adapter that "
        f"learned from them; nothing is retrained, prototypes are subtracted. Mean over {', '.join(sets)} and their "
        "seeds; a method is averaged over the sets where it was measured."
    )
    rows = [[f"{100 * gone:.0f}%", *(f"{100 * curves[who][i]:.1f}" for who in WHO)] for i, gone in enumerate(steps)]
    table = Table("relative accuracy, %", ["shards gone", *WHO], rows)
    return Shown("instant", about, [table], lambda figure: _draw(figure, steps, curves), (7, 4))


def relative(records: Records, sets: list[str], who: str, gone: float) -> float:
    """The mean over data sets and seeds of accuracy now over accuracy at first."""
    found = []
    for name in sets:
        first = {r["seed"]: r["accuracy"] for r in records.of(name, study="instant", rival=who, gone=0.0)}
        now = {r["seed"]: r["accuracy"] for r in records.of(name, study="instant", rival=who, gone=gone)}
        found += [now[seed] / first[seed] for seed in now if seed in first]
    return sum(found) / len(found)


def _draw(figure: Any, steps: list[float], curves: dict[str, list[float]]) -> None:
    axes = figure.subplots()
    for who, values in curves.items():
        axes.plot([100 * s for s in steps], [100 * v for v in values], marker="o", ms=3, color=COLOURS[who], label=who)
    axes.set(xlabel="shards gone, %", ylabel="relative accuracy, %")
    axes.legend(frameon=False)
