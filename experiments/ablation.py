"""One choice changed at a time, on a held-out part of the training split: where the defaults come from.

    python -m experiments.ablation --cache CACHE --out RESULTS/runs     runs what is missing
    shardgraph experiment ablation --out RESULTS                        shows what was written

Adapters alone at 1, 64 and 256 shards, and mixed with second-order prototypes at the same. Random and orthogonal
projections train on the CPU alone and are not here.
"""

import argparse
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments import cache
from experiments.cache import Data
from experiments.command import run_command
from experiments.recordfile import Record, RecordFile
from experiments.records import YOURS, Records, title
from experiments.result import Result, Table
from experiments.rivals import Fitted
from experiments.runs import Setup, mean_logits, splits
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

LEVELS = (1, 64, 256)
ADAPTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "lr 0.003": {"lr": 0.003},
    "lr 0.03": {"lr": 0.03},
    "lr 0.05, the paper's": {"lr": 0.05},
    "10 epochs": {"epochs": 10},
    "60 epochs": {"epochs": 60},
    "batch 16": {"batch": 16},
    "batch 64": {"batch": 64},
    "binary cross-entropy": {"loss": "bce"},
    "heads of 32": {"heads": 32},  # dimensions a head, here
    "heads of 16": {"heads": 16},
}
PROTOTYPES: dict[str, dict[str, Any]] = {
    "expansion 0": {"expansion": 0},
    "expansion 4": {"expansion": 4},
    "expansion 8": {"expansion": 8},
    "shrinkage 0.001": {"shrinkage": 0.001},
    "shrinkage 0.01": {"shrinkage": 0.01},
    "shrinkage 0.1": {"shrinkage": 0.1},
    "shrinkage 0.5": {"shrinkage": 0.5},
    "mixing 0.6": {"mixing": 0.6},
    "mixing 0.9": {"mixing": 0.9},
}
PRIORS = {"prior 0, a cosine": 0.0, "prior 0.2": 0.2, "prior 1": 1.0, "prior 1000, the textbook's": 1000.0}
FIRST = "first token alone"
Found = dict[str, dict[str, Record]]  # data set -> change -> record


def ablation(
    whole: Data, device: str, seed: int = 0, base: Recipe | None = None, done: Collection[str] = ()
) -> Iterator[Record]:
    """Every change that is not done on the held-out part, from as few trainings as possible."""
    base, data = base or Recipe(), whole.held_out()
    kept = Setup(data, device, base)
    for change, settings in ADAPTERS.items():
        if change in done and change != "default":
            continue
        setup = _setup(data, device, replace(base, **_heads(settings, data)), kept)
        trained = _trained(setup, seed)
        yield _record(change, setup, trained, seed)
        if change == "default":
            kept_adapters = trained
    for change, settings in PROTOTYPES.items():
        setup = Setup(data, device, replace(base, **settings))
        if "expansion" not in settings:
            setup = _setup(data, device, setup.recipe, kept)
        yield _record(change, setup, kept_adapters, seed)
    for change, prior in PRIORS.items():
        setup = _setup(data, device, base, kept)
        setup.prior = prior
        yield _record(change, setup, kept_adapters, seed)
    if FIRST in done:
        return
    light = replace(data, train=_first(data.train), test=_first(data.test))
    setup = Setup(light, device, base)
    yield _record(FIRST, setup, _trained(setup, seed), seed)


def show(records: Records) -> Result:
    """A row a change: the mean over data sets of what it adds to the default's accuracy, and each set's."""
    sets = [name for name in records.sets if any(records.of(name, study="ablation"))]
    found = {name: {r["change"]: r for r in records.of(name, study="ablation")} for name in sets}
    tables = []
    for what, heading in (("alone", "adapters alone"), ("mixed", "with second-order prototypes")):
        for n in LEVELS:
            columns = ["change", "mean", *map(title, sets)]
            changes = [c for c in _changes(found) if what == "mixed" or c not in PROTOTYPES | PRIORS]
            rows = [_row(change, found, what, n) for change in changes]
            tables.append(Table(f"{heading}, {n} shard{'s' if n > 1 else ''}", columns, rows))
    about = (
        "Accuracy in per cent on a fifth of each training split that was held out; the first row is the default's, the "
        "others are the points that one change adds to it. One seed: differences below half a point are noise. At one "
        "shard the first table is the unsharded adapter and the second the ceiling."
    )
    return Result("ablation", about, tables, lambda figure: _draw(figure, found), (9, 5))


def _changes(found: Found) -> list[str]:
    """All that were tried on some data set, as they were first met."""
    return list(dict.fromkeys(change for own in found.values() for change in own))


def _gain(change: str, own: dict[str, Record], what: str, n: int) -> float | None:
    """What a change adds to the default on a data set; None where it was not tried."""
    return own[change][what][str(n)] - own["default"][what][str(n)] if change in own else None


def _row(change: str, found: Found, what: str, n: int) -> list[Any]:
    if change == "default":
        values = [own[change][what][str(n)] for own in found.values()]
        return [change, f"{np.mean(values):.1f}", *(f"{value:.1f}" for value in values)]
    gains = [_gain(change, own, what, n) for own in found.values()]
    mean = np.mean([gain for gain in gains if gain is not None])
    return [change, f"{mean:+.1f}", *("" if gain is None else f"{gain:+.1f}" for gain in gains)]


def _draw(figure: Any, found: Found) -> None:
    axes = figure.subplots()
    changes = [change for change in _changes(found) if change != "default"]
    for i, n in enumerate(LEVELS):
        each = [[_gain(change, own, "mixed", n) for own in found.values()] for change in changes]
        gains = [np.mean([gain for gain in own if gain is not None]) for own in each]
        positions = [c + (i - 1) * 0.27 for c in range(len(changes))]
        axes.barh(positions, gains, 0.25, label=f"{n} shard{'s' if n > 1 else ''}")
    axes.set_yticks(range(len(changes)), changes, fontsize=8)
    axes.axvline(0, color="#999999", lw=0.8)
    axes.set_xlabel("points added to the default, with second-order prototypes; mean over data sets")
    axes.legend(frameon=False)


def _setup(data: Data, device: str, recipe: Recipe, known: Setup) -> Setup:
    """A setup for another recipe that takes over the sums of one with the same expansion."""
    setup = Setup(data, device, recipe)
    setup.first, setup.second, setup.described = known.first, known.second, known.described
    return setup


def _trained(setup: Setup, seed: int) -> dict[int, tuple[Fitted, Tensor]]:
    """At every level the trained groups, and their mean logits on the held-out part."""
    shapes = splits(setup.data)
    fitted = {n: setup.train(shapes[n], seed) for n in LEVELS}
    return {n: (own, mean_logits(own, setup.data.test)) for n, own in fitted.items()}


def _record(change: str, setup: Setup, trained: dict[int, tuple[Fitted, Tensor]], seed: int) -> Record:
    alone, mixed = ({str(n): setup.mixed(*own, mixes) for n, own in trained.items()} for mixes in ("nothing", "second"))
    return {"rival": "ablation", "change": change, "seed": seed, "alone": alone, "mixed": mixed}


def _heads(settings: dict[str, Any], data: Data) -> dict[str, Any]:
    """Heads by their number, where they were given by their width."""
    width = settings.get("heads")
    return settings | {"heads": data.train.tokens.shape[1] // width} if width else settings


def _first(samples: Samples) -> Samples:
    """The samples with their first token alone: the class token, where the backbone has one."""
    tokens = np.ascontiguousarray(samples.tokens[samples.offsets[:-1]])
    return replace(samples, tokens=tokens, offsets=np.arange(len(samples) + 1, dtype=np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=YOURS / "runs", help="the folder of records")
    parser.add_argument("--only", help="a data set in the cache", action="append")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    for name in cache.usable(options.cache, options.only):
        file, start = RecordFile(options.out / f"{name}.jsonl"), time.perf_counter()
        done = {record["change"] for record in file.records if record.get("study") == "ablation"}
        if not {*ADAPTERS, *PROTOTYPES, *PRIORS, FIRST} <= done:
            found = ablation(cache.load(options.cache, name), options.device, done=done)
            file.add({"study": "ablation", **record} for record in found)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_command(main)
