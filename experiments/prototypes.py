"""What prototypes are worth: SAFE minus NoprotoSAFE, and SISA minus NoprotoSAFE; the paper's box plots.

    shardgraph experiment prototypes

Expect prototypes to help at many shards, and the graph to be worth more than they are.
"""

from typing import Any

from experiments.records import Records, title
from experiments.result import Result, Table, boxes

PAIRS = (("SAFE", "NoprotoSAFE"), ("SISA", "NoprotoSAFE"))


def show(records: Records) -> Result:
    """Both differences at every level: a box over data sets."""
    levels = sorted({n for name in records.sets for n in records.levels(name) if n > 1})
    rows = []
    for n in levels:
        for a, b in PAIRS:
            values = [records.difference(name, a, b, n) for name in records.sets]
            rows.append([n, f"{a} minus {b}", *(f"{sum(v) / len(v):+.1f}" if v else "" for v in values)])
    about = (
        "Differences of test accuracy in points, mean over seeds. A negative SISA minus NoprotoSAFE is what the graph "
        "is worth."
    )
    table = Table("points", ["shards", "difference", *map(title, records.sets)], rows)
    return Result("prototypes", about, [table], lambda figure: _draw(figure, records, levels), (11, 4))


def _draw(figure: Any, records: Records, levels: list[int]) -> None:
    for axes, (a, b) in zip(figure.subplots(1, 2), PAIRS, strict=True):
        values = [
            [sum(v) / len(v) for name in records.sets if (v := records.difference(name, a, b, n))] for n in levels
        ]
        boxes(axes, [(a, values)], map(str, levels))
        axes.set(xlabel="shards", ylabel=f"{a} minus {b}, points")
        axes.get_legend().remove()
