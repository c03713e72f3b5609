"""SAFE-DP: accuracy against the number of requests served, on n = 8 shards that all learn from each other.

    python experiments/private.py cars.npz --workers 16 --json private.json
    python experiments/private.py cars.npz --held-out      settings are chosen so, on a fifth of the training split
    python experiments/private.py --calibrate              needs dp-accounting; writes private_noise.json
    python experiments/private.py --table                  k for epsilon 1 to 4, delta 1e-10 to 1e-13

`cars.npz` holds features, labels, ids and splits of Stanford Cars. Training needs torch, numpy and safetensors alone:
the noise is read from private_noise.json. For each k the largest epsilon that serves k requests under the paper's
budget (alpha, beta) = (30, 1), vacuous in beta; of the deltas 1e-10 to 1e-13 the one that needs the least noise.

    exact      plain edges: one group that is trained on everything, and anew at every request
    private    each shard's adapters learn from its own samples directly, from the other seven shards' privately
    own-only   the same training with a private learning rate of nothing
    sisa       no edges: each shard trained on its own by the plain training

With second-order prototypes and without; the mean of three seeds, which place the samples and draw the noise.
Expect (paper, ViT-L/16 with prototypes): 62.1% exact, 51.0% at k = 8. docs/privacy.md has what we found.
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shardgraph.data.readers.arrays import read_arrays
from shardgraph.data.samples import TEST, TRAIN, Samples
from shardgraph.digest import generator, keyed_hash
from shardgraph.graph import Complete
from shardgraph.learn.adapters import Adapters
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import train_group
from shardgraph.learn.private.budget import PAPER, largest_epsilon, table
from shardgraph.learn.private.recipe import PrivateRecipe
from shardgraph.learn.private.train import train_private_group
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe

NOISE = Path(__file__).with_name("private_noise.json")
SHARDS, KS, DELTAS, SEEDS = 8, (1, 2, 4, 8, 16), (1e-10, 1e-11, 1e-12, 1e-13), (0, 1, 2)
RECIPE = Recipe(name="private", adapter="linear", loss="bce", lr=1e-3)
NOTHING = 1e-12


@dataclass(frozen=True)
class Task:
    """One group to train: all of it (`exact`), or one shard."""

    seed: int
    kind: str  # "exact", "sisa", "own-only" or "private"
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
    if task.kind == "sisa":
        return train_group(task.shard, mine, classes, RECIPE, task.seed)
    lr = NOTHING if task.kind == "own-only" else privacy.lr
    privacy = replace(privacy, noise=noise.get(task.k, 1.0), lr=lr)
    direct = np.tile(own, (len(classes), 1))
    source, owners = SeededNoise(task.seed, task.k, task.shard), [task.shard] * len(classes)
    return train_private_group(
        task.shard, samples, classes, direct, ~direct, RECIPE, task.seed, privacy, source, owners
    )


def figure(train: Samples, test: Samples, noise: dict[int, float], privacy: PrivateRecipe, workers: int) -> list[dict]:
    """A row for each model: its accuracy with prototypes and without, the mean over seeds and their spread."""
    train, test = light(train), light(test)
    done: dict[tuple[str, int, int], dict[str, Adapters]] = {}
    for task, adapters in _run(list(tasks()), train, noise, privacy, workers):
        done.setdefault((task.kind, task.k, task.seed), {})[task.shard or "all"] = adapters
    sums = total([train], second_order=True)
    rows: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for (kind, k, seed), groups in sorted(done.items()):
        models = [Model.assemble(groups, sums, replace(RECIPE, prototypes=on), seed) for on in (False, True)]
        rows.setdefault((kind, k), []).append((accuracy(models[0], test), accuracy(models[1], test)))
    return [_row(kind, k, np.array(found)) for (kind, k), found in sorted(rows.items())]


def tasks() -> Iterator[Task]:
    """Every group that the figure needs, the largest first."""
    names = Complete(SHARDS).graph(()).shards
    for seed in SEEDS:
        yield Task(seed, "exact")
    for seed in SEEDS:
        yield from (Task(seed, "private", name, k) for k in KS for name in names)
        yield from (Task(seed, kind, name) for kind in ("own-only", "sisa") for name in names)


def placed(samples: Samples, seed: int) -> list[str]:
    """The shard of every sample, as a workspace with this seed would place it."""
    columns = (samples.ids, samples.sources, samples.labels)
    return Complete(SHARDS).place_all(*columns, seed=seed, classes=tuple(sorted(set(samples.labels))))


def accuracy(model: Model, samples: Samples) -> float:
    return float(np.mean([a == b for a, b in zip(model.predict(samples), samples.labels, strict=True)]))


def light(samples: Samples) -> Samples:
    """The same samples without their tokens, which linear adapters do not use."""
    return replace(samples, tokens=np.zeros((len(samples), 1), np.float16), offsets=np.arange(len(samples) + 1))


def held_out(samples: Samples) -> tuple[Samples, Samples]:
    """The training split without a fifth of it, and that fifth."""
    last = np.array([keyed_hash(0, "held out", sample) % 5 == 0 for sample in samples.ids])
    return samples.take(np.flatnonzero(~last)), samples.take(np.flatnonzero(last))


def split(samples: Samples) -> tuple[Samples, Samples]:
    """The training samples and the test samples."""
    rows = {name: [i for i, each in enumerate(samples.splits) if each == name] for name in (TRAIN, TEST)}
    return samples.take(rows[TRAIN]), samples.take(rows[TEST])


def calibrated(privacy: PrivateRecipe) -> dict:
    """The noise for every k: the least over the deltas, for samples that seven groups read."""
    from shardgraph.learn.private.accounting import calibrate  # dp-accounting

    rows = []
    for k in KS:
        found = []
        for delta in DELTAS:
            epsilon = largest_epsilon(k, PAPER, delta)
            found.append((calibrate(privacy.rate, privacy.steps, epsilon, delta, releases=SHARDS - 1), epsilon, delta))
        noise, epsilon, delta = min(found)
        rows.append({"k": k, "epsilon": epsilon, "delta": delta, "noise": noise})
    return {"rate": privacy.rate, "steps": privacy.steps, "readers": SHARDS - 1, "budget": str(PAPER), "rows": rows}


def _row(kind: str, k: int, found: np.ndarray) -> dict:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="?", type=Path, help="an .npz or .safetensors file with features and splits")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--table", action="store_true")
    arguments, privacy = parser.parse_args(), PrivateRecipe()
    if arguments.calibrate:
        NOISE.write_text(json.dumps(calibrated(privacy), indent=1) + "\n")
    if arguments.table:
        print(table(PAPER))
    if arguments.features is None:
        return
    known = json.loads(NOISE.read_text())
    assert (known["rate"], known["steps"]) == (privacy.rate, privacy.steps), "calibrate the noise anew"
    noise = {row["k"]: row["noise"] for row in known["rows"]}
    train, test = split(read_arrays(arguments.features))
    rows = figure(*(held_out(train) if arguments.held_out else (train, test)), noise, privacy, arguments.workers)
    epsilons = {row["k"]: row["epsilon"] for row in known["rows"]}
    for row in rows:
        at = f"k = {row['k']:>2}, epsilon {epsilons[row['k']]:.3g}" if row["k"] else ""
        plain, mixed = (f"{row[n]['mean']:.4f} +- {row[n]['spread']:.4f}" for n in ("adapters", "with_prototypes"))
        print(f"{row['kind']:<9}{at:<24}{plain}   with prototypes {mixed}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"noise": known, "recipe": RECIPE.to_json(), "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
