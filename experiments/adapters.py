"""Open-InCA against linear adapters, for SAFE, SISA and ProtoSISA at 1 to 256 shards: the paper's box plots.

    shardgraph experiment adapters

The paper finds InCA above linear for SAFE everywhere. Here it depends on the data set: see docs/experiments.md.
"""

from typing import Any

from experiments.records import Records, title
from experiments.result import Result, Table, boxes

WHO = ("SAFE", "SISA", "ProtoSISA")


def show(records: Records) -> Result:
    """InCA minus linear at every level: a box over data sets."""
    sets = [name for name in records.sets if any(records.of(name, adapter="linear"))]
    levels = sorted({n for name in sets for n in records.levels(name, "linear")})
    rows = []
    for n in levels:
        for who in WHO:
            values = [_gap(records, name, who, n) for name in sets]
            rows.append([n, who, *(f"{v:+.1f}" if v is not None else "" for v in values)])
    about = (
        "Accuracy with Open-InCA minus accuracy with linear adapters, points, mean over seeds. Linear adapters see "
        "the pooled features after the network's last layer, Open-InCA the tokens before it; with EfficientNet-Lite "
        "a token has 352 numbers and the pooled features 1280, unlike in the paper's ViT-L/16, where both have 1024."
    )
    table = Table("InCA minus linear", ["shards", "method", *map(title, sets)], rows)
    return Result("adapters", about, [table], lambda figure: _draw(figure, records, sets, levels), (11, 4))


def _gap(records: Records, name: str, who: str, n: int) -> float | None:
    inca, linear = records.accuracy(name, who, n), records.accuracy(name, who, n, "linear")
    both = sorted(inca.keys() & linear.keys())
    return sum(inca[s] - linear[s] for s in both) / len(both) if both else None


def _draw(figure: Any, records: Records, sets: list[str], levels: list[int]) -> None:
    def values(who: str, n: int) -> list[float]:
        return [v for name in sets if (v := _gap(records, name, who, n)) is not None]

    axes = figure.subplots()
    boxes(axes, [(who, [values(who, n) for n in levels]) for who in WHO], map(str, levels))
    axes.set(xlabel="shards", ylabel="InCA minus linear, points")
