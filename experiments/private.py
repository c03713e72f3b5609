"""SAFE-DP: accuracy against the number of requests served, on n = 8 shards that all learn from each other.

    python -m experiments.private --cache CACHE --out RESULTS/runs --workers 16    runs, writes its records
    python -m experiments.private --cache CACHE --held-out    settings are chosen so; prints, writes nothing
    python -m experiments.private --calibrate                 needs dp-accounting; writes private_noise.json
    shardgraph experiment private --out RESULTS               shows what was written

CACHE holds Stanford Cars as `experiments.cache` embeds it, or another data set that --data names. Training needs torch,
numpy and safetensors alone: the noise is read from private_noise.json. For each k it is that of the largest epsilon
that serves k requests under the paper's budget (alpha, beta) = (30, 1), vacuous in beta; of the deltas 1e-10 to 1e-13
the one that needs the least noise.

    exact      plain edges: one group that is trained on everything, and anew at every request
    private    each shard's adapters learn from its own samples directly, from the other seven shards' privately
    own-only   the same training with a private learning rate of nothing
    SISA       no edges: each shard trained on its own by the plain training

Linear adapters on pooled features, with second-order prototypes and without; the mean of three seeds, which place the
samples and draw the noise. Paper, ViT-L/16: 62.1% exact, 51.0% at k = 8.
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cache import Data, load, usable
from experiments.command import run_command
from experiments.recordfile import Record, RecordFile
from experiments.records import YOURS, Records, title
from experiments.result import Result, Table
from shardgraph.digest import generator
from shardgraph.graph import Complete
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import train_group
from shardgraph.learn.inca import Adapters
from shardgraph.learn.private.accounting.budget import PAPER, largest_epsilon, served
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training.private_group import train_private_group
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

NOISE = Path(__file__).with_name("private_noise.json")
SHARDS, KS, DELTAS, SEEDS = 8, (1, 2, 4, 8, 16), (1e-10, 1e-11, 1e-12, 1e-13), (0, 1, 2)
RECIPE = Recipe(name="private", adapter="linear", loss="bce", lr=1e-3, expansion=0)
KINDS = ("exact", "own-only", "private", "SISA")
NOTHING = 1e-12


@dataclass(frozen=True)
class Task:
    """One group to train: all of it (`exact`), or one shard."""

    seed: int
    kind: str  # one of KINDS
    shard: str = ""
    k: int = 0


class SeededNoise:
    """Noise that can be repeated: fit for an experiment, never for people's data."""

    def __init__(self, *names: object) -> None:
        self._rng = generator(0, "an experiment's noise", *map(str, names))

    def chosen(self, rate: float, count: int) -> np.ndarray:
        return self._rng.random(count) < rate

    def normal(self, count: int) -> np.ndarray:
        return self._rng.standard_normal(count)


def trained(task: Task, samples: Samples, noise: dict[int, float], privacy: PrivateRecipe) -> Adapters:
    """The adapters of a task."""
    if task.kind == "exact":
        return train_group("all", samples, tuple(sorted(set(samples.labels))), RECIPE, task.seed)
    own = np.array([place == task.shard for place in placed(samples, task.seed)])
    mine = samples.take(np.flatnonzero(own))
    classes = tuple(sorted(set(mine.labels)))
    if task.kind == "SISA":
        return train_group(task.shard, mine, classes, RECIPE, task.seed)
    lr = NOTHING if task.kind == "own-only" else privacy.lr
    privacy = replace(privacy, noise=noise.get(task.k, 1.0), lr=lr)
    direct = np.tile(own, (len(classes), 1))
    source, owners = SeededNoise(task.seed, task.k, task.shard), [task.shard] * len(classes)
    return train_private_group(
        task.shard, samples, classes, direct, ~direct, RECIPE, task.seed, privacy, source, owners
    )


def figure(
    train: Samples,
    test: Samples,
    noise: dict[int, float],
    privacy: PrivateRecipe,
    workers: int,
    seeds: Sequence[int] = SEEDS,
) -> list[Record]:
    """A row for each model: its accuracy with prototypes and without, the mean over seeds and their spread."""
    train, test = light(train), light(test)
    done: dict[tuple[str, int, int], dict[str, Adapters]] = {}
    for task, adapters in _run(list(tasks(seeds, tuple(noise))), train, noise, privacy, workers):
        done.setdefault((task.kind, task.k, task.seed), {})[task.shard or "all"] = adapters
    sums = total([train], second_order=True)
    rows: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for (kind, k, seed), groups in sorted(done.items()):
        models = [Model.assemble(groups, sums, replace(RECIPE, prototypes=on), seed) for on in (False, True)]
        rows.setdefault((kind, k), []).append((accuracy(models[0], test), accuracy(models[1], test)))
    return [_row(kind, k, np.array(found)) for (kind, k), found in sorted(rows.items())]


def tasks(seeds: Sequence[int] = SEEDS, ks: Sequence[int] = KS) -> Iterator[Task]:
    """Every group that the figure needs, the largest first."""
    names = Complete(SHARDS).graph(()).shards
    for seed in seeds:
        yield Task(seed, "exact")
    for seed in seeds:
        yield from (Task(seed, "private", name, k) for k in ks for name in names)
        yield from (Task(seed, kind, name) for kind in ("own-only", "SISA") for name in names)


def placed(samples: Samples, seed: int) -> list[str]:
    """The shard of every sample, as a workspace with this seed would place it."""
    columns = (samples.ids, samples.sources, samples.labels)
    return Complete(SHARDS).place_all(*columns, seed=seed, classes=tuple(sorted(set(samples.labels))))


def accuracy(model: Model, samples: Samples) -> float:
    return float(np.mean([a == b for a, b in zip(model.predict(samples), samples.labels, strict=True)]))


def light(samples: Samples) -> Samples:
    """The same samples without their tokens, which linear adapters do not use."""
    return replace(samples, tokens=np.zeros((len(samples), 1), np.float16), offsets=np.arange(len(samples) + 1))


def calibrated(privacy: PrivateRecipe) -> Record:
    """The noise for every k: the least over the deltas, for samples that seven groups read."""
    from shardgraph.learn.private.accounting.mechanism import calibrate  # dp-accounting

    rows = []
    for k in KS:
        found = []
        for delta in DELTAS:
            epsilon = largest_epsilon(k, PAPER, delta)
            found.append((calibrate(privacy.rate, privacy.steps, epsilon, delta, releases=SHARDS - 1), epsilon, delta))
        noise, epsilon, delta = min(found)
        rows.append({"k": k, "epsilon": epsilon, "delta": delta, "noise": noise})
    return {"rate": privacy.rate, "steps": privacy.steps, "readers": SHARDS - 1, "budget": str(PAPER), "rows": rows}


def _row(kind: str, k: int, found: np.ndarray) -> Record:
    mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(2)
    both = zip(("adapters", "with_prototypes"), mean, spread, strict=True)
    return {"kind": kind, "k": k, "seeds": len(found)} | {n: {"mean": float(m), "spread": float(s)} for n, m, s in both}


_HERE: tuple[Samples, dict[int, float], PrivateRecipe]


def _start(*given: object) -> None:
    global _HERE
    _HERE = given  # type: ignore[assignment]


def _work(task: Task) -> tuple[Task, Adapters]:
    return task, trained(task, *_HERE)


def _run(
    todo: list[Task], samples: Samples, noise: dict[int, float], privacy: PrivateRecipe, workers: int
) -> Iterator[tuple[Task, Adapters]]:
    if workers == 1:
        yield from ((task, trained(task, samples, noise, privacy)) for task in todo)
        return
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _start, (samples, noise, privacy)) as pool:
        yield from pool.imap_unordered(_work, todo)


def measured(data: Data, workers: int, seeds: Sequence[int] = SEEDS, ks: Sequence[int] = KS) -> list[Record]:
    """The figure's records for a data set, with the noise that was calibrated."""
    known, privacy = calibrated_noise(), PrivateRecipe()
    assert (known["rate"], known["steps"]) == (privacy.rate, privacy.steps), "calibrate the noise anew"
    noise = {row["k"]: row["noise"] for row in known["rows"] if row["k"] in ks}
    rows = figure(data.train, data.test, noise, privacy, workers, seeds)
    return [{"study": "private", "rival": row["kind"], **row} for row in rows]


def calibrated_noise() -> Record:
    """What `--calibrate` wrote."""
    known: Record = json.loads(NOISE.read_text())
    return known


def show(records: Records) -> Result:
    """The figure and both tables."""
    name = next(name for name in records.sets if any(records.of(name, study="private")))
    found = list(records.of(name, study="private"))
    terms = {row["k"]: row for row in calibrated_noise()["rows"]}
    theirs = " Paper, ViT-L/16: 62.1 exact, 51.0 at k = 8." if name.startswith("cars196") else ""
    about = (
        f"Accuracy on {title(name)} with {SHARDS} shards, %, mean and standard deviation over {found[0]['seeds']} "
        "seeds. k is the number of single samples that may leave a clique before its adapters are trained anew, under "
        "the paper's budget (30, 1), which is vacuous in beta; epsilon is the largest that serves k. Linear adapters "
        f"on pooled features.{theirs}"
    )
    rows = []
    for row in found:
        at = terms.get(row["k"], {})
        numbers = [f"{at['epsilon']:.3g}", f"{at['delta']:.0e}", f"{at['noise']:.1f}"] if at else ["", "", ""]
        both = [f"{100 * row[n]['mean']:.1f} ± {100 * row[n]['spread']:.1f}" for n in ("adapters", "with_prototypes")]
        rows.append([row["kind"], row["k"] or "", *numbers, *both])
    columns = ["graph", "k", "epsilon", "delta", "noise, clips", "adapters alone", "with prototypes"]
    counts = [[f"{e:g}", *(served(PAPER, e, delta) for delta in DELTAS)] for e in (1.0, 2.0, 3.0, 4.0)]
    tables = [
        Table("Accuracy", columns, rows),
        Table("k under (30, 1)", ["epsilon", *(f"delta {delta:.0e}" for delta in DELTAS)], counts),
    ]
    return Result("private", about, tables, lambda figure: _draw(figure, found), (9, 4))


def _draw(figure: Any, rows: list[Record]) -> None:
    axes = figure.subplots(1, 2, sharex=True)
    for axis, name in zip(axes, ("adapters", "with_prototypes"), strict=True):
        private = [row for row in rows if row["kind"] == "private"]
        means, spreads = ([100 * row[name][part] for row in private] for part in ("mean", "spread"))
        axis.errorbar([row["k"] for row in private], means, spreads, marker="o", label="private", color="#2a7f62")
        for kind, style in (("exact", "-"), ("own-only", "--"), ("SISA", ":")):
            level = next(100 * row[name]["mean"] for row in rows if row["kind"] == kind)
            axis.axhline(level, linestyle=style, label=kind, color="#555555")
        axis.set(xscale="log", xlabel="requests served, k", ylabel="accuracy, %", title=name.replace("_", " "))
        axis.set_xticks(KS, list(map(str, KS)))
    axes[0].legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="a folder that experiments.cache made")
    parser.add_argument("--data", default="cars196--efficientnet-lite2", help="the data set's folder in it")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many")
    parser.add_argument("--out", type=Path, default=YOURS / "runs", help="the folder of records")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--calibrate", action="store_true")
    arguments = parser.parse_args()
    if arguments.cache is None and not arguments.calibrate:
        parser.error("--cache says where the embeddings are; or give --calibrate")
    if arguments.calibrate:
        NOISE.write_text(json.dumps(calibrated(PrivateRecipe()), indent=1) + "\n")
        return
    usable(arguments.cache, [arguments.data])
    data, file = load(arguments.cache, arguments.data), RecordFile(arguments.out / f"{arguments.data}.jsonl")
    data = data.held_out() if arguments.held_out else data
    if arguments.held_out or not all(file.has(study="private", rival=kind) for kind in KINDS):
        found = measured(data, arguments.workers, range(arguments.seeds))
        if arguments.held_out:
            print(show(Records({data.name: found})).markdown(None))
            return
        file.add(found)
    print(show(Records({arguments.data: file.records})).markdown(None))


if __name__ == "__main__":
    run_command(main)
