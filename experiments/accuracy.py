"""Accuracy of SAFE, SISA and ProtoSISA at 2 to 256 shards: the paper's tables 1 and 4 to 6.

    shardgraph experiment accuracy

Expect SAFE at or above SISA everywhere, and the gap to widen with the number of shards.
"""

from typing import Any

from experiments import paper
from experiments.records import Records, title
from experiments.result import COLOURS, Result, Table, interval, panels, panels_size, spread

WHO = ("SAFE", "SISA", "ProtoSISA", "NoprotoSAFE")


def show(records: Records) -> Result:
    """A table a data set, the gap of SAFE over SISA, and accuracy drawn over the number of shards."""
    tables = [_table(records, name) for name in records.sets] + [_gaps(records)]
    about = "Test accuracy in per cent, mean and standard deviation over seeds." + _origin(records)
    if any(_known(name) for name in records.sets):
        about += (
            " 'paper, ViT-L/16' are the paper's numbers with its own backbone and full-size images: not comparable in "
            "height, only in shape."
        )
    return Result("accuracy", about, tables, lambda figure: _draw(figure, records), panels_size(len(records.sets)))


def _known(name: str) -> list[str]:
    """The methods whose accuracy on this data set the paper reports."""
    return [who for who in WHO[:3] if name.partition("--")[0] in paper.ACCURACY[who]]


def _origin(records: Records) -> str:
    """The origin of (n_c, n_f)."""
    data = list(dict.fromkeys(name.partition("--")[0] for name in records.sets))
    theirs = [name for name in data if name in paper.NO_SHARDING]
    if not theirs:
        return ""
    others = "" if len(theirs) == len(data) else f" on {', '.join(theirs)}; by one rule on the others"
    return f" (n_c, n_f) as in the paper{others}."


def _table(records: Records, name: str) -> Table:
    data = name.partition("--")[0]
    known = _known(name)
    columns = ["shards", "(n_c, n_f)", *WHO, *(f"{who}, paper, ViT-L/16" for who in known)]
    rows = []
    shapes = {r["n"]: tuple(r["shape"]) for r in records.of(name, rival="SAFE", adapter="inca")}
    for n in records.levels(name):
        theirs = [
            paper.ACCURACY[who][data][paper.LEVELS.index(n)] if n > 1 else paper.NO_SHARDING[data] for who in known
        ]
        ours = [spread(list(records.accuracy(name, who, n).values())) for who in WHO]
        rows.append([n, shapes.get(n, (1, 1)), *ours, *theirs])
    alone = spread(list(records.accuracy(name, "Prototypes", 0).values()))
    theirs = [paper.PROTOTYPES[data]] * len(known) if data in paper.PROTOTYPES else []
    return Table(f"{title(name)}; Prototypes: {alone}" + (f" (paper: {theirs[0]})" if theirs else ""), columns, rows)


def _gaps(records: Records) -> Table:
    rows = []
    for n in (64, 256):
        means = []
        for name in records.sets:
            if n in records.levels(name):
                mean, half = interval(records.difference(name, "SAFE", "SISA", n))
                means.append(mean)
                rows.append([title(name), n, f"{mean:.1f}", f"{mean - half:.1f} to {mean + half:.1f}"])
        note = f"paper: {paper.GAP_AT_256}" if n == 256 else ""
        if means:
            rows.append(["mean of all", n, f"{sum(means) / len(means):.1f}", note])
    return Table("SAFE minus SISA, points", ["data set", "shards", "mean", "95% interval over seeds"], rows)


def _draw(figure: Any, records: Records) -> None:
    for axes, name in panels(figure, records.sets):
        levels = records.levels(name)
        for who in (*WHO[:3], "Ours"):
            means = [sum(own := list(records.accuracy(name, who, n).values())) / len(own) for n in levels]
            axes.plot(levels, means, marker="o", ms=3, color=COLOURS[who], label=who)
        alone = next(iter(records.accuracy(name, "Prototypes", 0).values()))
        axes.axhline(alone, color="#999999", ls=":", label="Prototypes")
        axes.set_xscale("log", base=2)
        axes.set_title(title(name), fontsize=9)
    figure.axes[0].legend(frameon=False, fontsize=7)
    figure.supxlabel("shards")
    figure.supylabel("test accuracy, %")
