"""Accuracy over n_f, the number of class cliques a coarse shard, at a fixed number of shards.

    shardgraph experiment fine

Expect a maximum between: n_f = 1 is SISA, and cliques of two or three classes see too little of each other.
"""

from typing import Any

from experiments.records import Records, title
from experiments.result import COLOURS, Result, Table, panels, panels_size, spread


def show(records: Records) -> Result:
    """A row a data set and method, a column a number of cliques."""
    sets = [name for name in records.sets if any(records.of(name, study="fine"))]
    sizes = sorted({r["shape"][1] for name in sets for r in records.of(name, study="fine")})
    rows = []
    for name in sets:
        for who in ("NoprotoSAFE", "SAFE", "Ours"):
            cells = [_values(records, name, who, f) for f in sizes]
            rows.append([f"{title(name)}, {who}", *(spread(cell) if cell else "" for cell in cells)])
    shards = next(r["n"] for name in sets for r in records.of(name, study="fine"))
    about = f"Test accuracy in per cent at {shards} shards, cut into n_f cliques of classes; n_f = 1 is SISA's cut."
    table = Table(f"{shards} shards", ["data set, method", *(f"n_f = {f}" for f in sizes)], rows)
    return Result("fine", about, [table], lambda figure: _draw(figure, records, sets, sizes), panels_size(len(sets)))


def _values(records: Records, name: str, who: str, fine: int) -> list[float]:
    return [r["accuracy"] for r in records.of(name, study="fine", rival=who) if r["shape"][1] == fine]


def _draw(figure: Any, records: Records, sets: list[str], sizes: list[int]) -> None:
    for axes, name in panels(figure, sets):
        for who in ("NoprotoSAFE", "SAFE", "Ours"):
            points = [(f, sum(own) / len(own)) for f in sizes if (own := _values(records, name, who, f))]
            axes.plot(*zip(*points, strict=True), marker="o", ms=3, color=COLOURS[who], label=who)
        axes.set_xscale("log", base=2)
        axes.set_title(title(name), fontsize=9)
    figure.supxlabel("n_f")
    figure.supylabel("test accuracy, %")
    figure.axes[0].legend(frameon=False, fontsize=7)
