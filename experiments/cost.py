"""Error against the expected cost of forgetting one sample: the paper's trade-off figure.

    shardgraph experiment cost

Expect SAFE below SISA at every cost, and ours below both. Samples revisited are measured in the same runs.
"""

from typing import Any

from experiments.records import Records, title
from experiments.result import COLOURS, Result, Table

WHO = ("SAFE", "SISA", "ProtoSISA", "Ours")
DEVICES = {"cuda": "GPU", "cpu": "CPU"}  # records without one are from a GPU


def show(records: Records) -> Result:
    """Mean error over data sets by share of the data read again, and every measured forget beside its prediction."""
    about = (
        "Error in per cent, averaged over the data sets, against the expected share of all samples that are read again "
        "to forget one. Prototypes need none." + _kept(records)
    )
    return Result("cost", about, [_means(records), _forgets(records)], lambda figure: _draw(figure, records), (7, 4.5))


def points(records: Records, who: str) -> list[tuple[float, float]]:
    """(expected share revisited, mean error) at every level that all data sets have."""
    common = sorted(set.intersection(*(set(records.levels(name)) for name in records.sets)))
    found = []
    for n in common:
        errors, shares = [], []
        for name in records.sets:
            values = list(records.accuracy(name, who, n).values())
            errors.append(100 - sum(values) / len(values))
            rival = {"Ours": "Ceiling"}.get(who, "No sharding") if n == 1 else who
            record = next(records.of(name, rival=rival, n=n, adapter="inca"))
            shares.append(record["cost"] / record["samples"])
        found.append((sum(shares) / len(shares), sum(errors) / len(errors)))
    return found


def _means(records: Records) -> Table:
    rows = [[who, f"{share:.4f}", f"{error:.1f}"] for who in WHO for share, error in points(records, who)]
    rows += [[who, "0", f"{_alone(records, who):.1f}"] for who in ("Prototypes", "Second order")]
    return Table("mean over data sets", ["method", "share revisited", "error, %"], rows)


def _alone(records: Records, who: str) -> float:
    values = [next(iter(records.accuracy(name, who, 0).values())) for name in records.sets]
    return 100 - sum(values) / len(values)


def _kept(records: Records) -> str:
    """How the forgets that were carried out compare with the prediction."""
    found = [f for name in records.sets for record in records.of(name, rival="forget") for f in record["forgets"]]
    equal = sum(f["predicted"] == f["measured"] for f in found)
    if not found:
        return ""
    if equal == len(found):
        return " Every forget that was carried out read just as many samples as the graph predicts."
    return f" {equal} of {len(found)} forgets that were carried out read just as many samples as the graph predicts."


def _forgets(records: Records) -> Table:
    rows = []
    for name in records.sets:
        for record in records.of(name, rival="forget"):
            own, device = record["forgets"], DEVICES[record.get("device", "cuda")]
            equal = sum(f["predicted"] == f["measured"] for f in own)
            measured = sum(f["measured"] for f in own) / len(own)
            ms = 1000 * sorted(f["seconds"] for f in own)[len(own) // 2]
            counts = [f"{measured:.1f}", f"{equal} of {len(own)}"]
            rows.append([title(name), record["shape"], *counts, f"{ms:.0f}", device])
    columns = ["data set", "(n_c, n_f)", "samples read, mean", "as predicted", "ms, median"]
    return Table("single samples forgotten", *_one_device(columns, rows))


def _one_device(columns: list[str], rows: list[list[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Where all rows end in the same device, the last heading says so; else it is a column."""
    devices = {row[-1] for row in rows}
    if len(devices) > 1:
        return [*columns, "on"], rows
    return [*columns[:-1], ", ".join([columns[-1], *devices])], [row[:-1] for row in rows]


def _draw(figure: Any, records: Records) -> None:
    axes = figure.subplots()
    for who in WHO:
        shares, errors = zip(*points(records, who), strict=True)
        axes.plot(shares, errors, marker="o", color=COLOURS[who], label=who)
    for who, style in (("Prototypes", ":"), ("Second order", "--")):
        axes.axhline(_alone(records, who), color="#999999", ls=style, label=f"{who} (cost 0)")
    axes.set_xscale("log")
    axes.set(xlabel="expected share of samples read again per forget", ylabel="mean error, %")
    axes.legend(frameon=False)
