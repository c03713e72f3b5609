"""Second-order prototypes with SAFE's graph, our default, against everything else.

    shardgraph experiment second

Expect ours at 256 shards at or above the unsharded adapter, and within two points of the ceiling.
"""

from typing import Any

from experiments.records import Records, title
from experiments.result import Result, Table, spread

COLUMNS = (
    ("No sharding", 1),
    ("Prototypes", 0),
    ("SISA", 64),
    ("SAFE", 64),
    ("SISA", 256),
    ("SAFE", 256),
    ("Second order", 0),
    ("Ours", 64),
    ("Ours", 256),
    ("Ceiling", 1),
)


def show(records: Records) -> Result:
    """One row a data set, and the three differences that matter."""
    rows = [
        [title(name), *(spread(list(records.accuracy(name, *c).values())) for c in COLUMNS)] for name in records.sets
    ]
    headings = [who + (f" {n}" if n > 1 else "") for who, n in COLUMNS]
    pairs = (("No sharding", 1), ("Prototypes", 0), ("Ceiling", 1))
    gaps = {
        name: [_mean(records, name, "Ours", 256) - _mean(records, name, *pair) for pair in pairs]
        for name in records.sets
    }
    means = [sum(own[i] for own in gaps.values()) / len(gaps) for i in range(3)]
    differences = [[title(name), *(f"{v:+.2f}" for v in own)] for name, own in gaps.items()]
    differences.append(["mean", *(f"{v:+.2f}" for v in means)])
    about = (
        "Test accuracy in per cent, mean and standard deviation over seeds. 'Second order' is the prototypes alone, "
        "'Ours' mixes them with SAFE's adapters, 'Ceiling' with one group that sees everything. One recipe for all "
        "data sets, chosen on held-out parts of training splits."
    )
    tables = [
        Table("accuracy", ["data set", *headings], rows),
        Table("ours at 256 shards minus", ["data set", *(who for who, _ in pairs)], differences),
    ]
    return Result("second", about, tables, lambda figure: _draw(figure, records), (11, 4))


def _mean(records: Records, name: str, who: str, n: int) -> float:
    values = list(records.accuracy(name, who, n).values())
    return sum(values) / len(values)


def _draw(figure: Any, records: Records) -> None:
    axes = figure.subplots()
    shown = [("Prototypes", 0), ("SISA", 256), ("SAFE", 256), ("No sharding", 1), ("Ours", 256), ("Ceiling", 1)]
    colours = ["#c8c8c8", "#b5443c", "#2a7f62", "#8a8a8a", "#111111", "#d9a441"]
    for i, ((who, n), colour) in enumerate(zip(shown, colours, strict=True)):
        positions = [s + (i - 2.5) * 0.13 for s in range(len(records.sets))]
        label = who + (f" {n}" if n > 1 else "")
        axes.bar(positions, [_mean(records, name, who, n) for name in records.sets], 0.12, color=colour, label=label)
    names = [title(name).replace(" (", "\n(") for name in records.sets]
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=20, ha="right", rotation_mode="anchor")
    axes.set_ylabel("test accuracy, %")
    axes.legend(frameon=False, ncols=3, fontsize=8)
