"""What else a shard can be: SISA with slices, and LegoNet's select-and-average of the nearest sub-models.

    shardgraph experiment others

Slices keep what a shard knew after every stage, and a forget goes back to the stage before its slice: it reads samples
once a stage, with fewer epochs each. LegoNet places samples by their looks, so its sub-models differ in size.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from experiments.cache import Data
from experiments.legonet import Lego
from experiments.recordfile import Record
from experiments.records import Records, title
from experiments.result import COLOURS, Result, Table, panels, panels_size, spread
from experiments.runs import CHUNK
from experiments.slices import Sliced
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

N, SLICES, NEAREST = 64, 4, 8
WHO = ("SISA", f"SISA, {SLICES} slices", f"LegoNet, nearest {NEAREST}", "SAFE", "Ours")


def others(data: Data, seed: int, device: str, recipe: Recipe | None = None) -> Iterator[Record]:
    """Both, at as many shards as SISA has."""
    recipe = recipe or Recipe()
    sliced = Sliced.fit(data.train, N, SLICES, recipe, seed, device)
    lego = Lego.fit(data.train, N, NEAREST, recipe, seed, device)
    for name, model, stored in ((WHO[1], sliced, sliced.storage()), (WHO[2], lego, lego.storage())):
        right = _right(model, data.test)
        facts = {"n": N, "seed": seed, "accuracy": 100 * right, "cost": model.cost(), "bytes": stored}
        yield {"rival": name, **facts}


def show(records: Records) -> Result:
    """One row a method and data set: accuracy, samples read per forget, bytes that are kept."""
    sets = [name for name in records.sets if any(records.of(name, study="others"))]
    found = {(name, who): _found(records, name, who) for name in sets for who in WHO}
    rows: list[list[Any]] = []
    for (name, who), own in found.items():
        stored = f"{own[0]['bytes'] / 2**20:.1f}" if "bytes" in own[0] else ""
        rows.append([title(name), who, spread([r["accuracy"] for r in own]), f"{_mean(own, 'cost'):.0f}", stored])
    about = (
        f"Test accuracy in per cent at {N} shards, mean and standard deviation over seeds, and the expected number of "
        "samples that a forget reads, each as often as a stage reads it; a stage has fewer epochs. Slices keep a copy "
        "of the adapters after every stage (MiB). All of these forget exactly."
    )
    columns = ["data set", "method", "accuracy", "samples read per forget", "adapters kept, MiB"]
    table = Table("slices and LegoNet", columns, rows)
    return Result("others", about, [table], lambda figure: _draw(figure, sets, found), panels_size(len(sets), 5, 3.5))


def _found(records: Records, name: str, who: str) -> list[Record]:
    own = list(records.of(name, study="others", rival=who))
    return own or list(records.of(name, rival=who, n=N, adapter="inca"))


def _mean(records: list[Record], what: str) -> float:
    return sum(record[what] for record in records) / len(records)


def _draw(figure: Any, sets: list[str], found: dict[tuple[str, str], list[Record]]) -> None:
    for axes, name in panels(figure, sets):
        for who in WHO:
            own, colour = found[name, who], COLOURS.get(who, "#d9a441" if "slices" in who else "#8a8a8a")
            axes.scatter(_mean(own, "cost"), _mean(own, "accuracy"), color=colour, label=who)
        axes.set(title=title(name), xlabel="samples read per forget", ylabel="test accuracy, %")
        axes.legend(frameon=False, fontsize=7)


def _right(model: Sliced | Lego, test: Samples) -> float:
    parts = (test.take(np.arange(i, min(i + CHUNK, len(test)))) for i in range(0, len(test), CHUNK))
    predicted = chain.from_iterable(model.predict(part) for part in parts)
    return float(np.mean([a == b for a, b in zip(predicted, test.labels, strict=True)]))
