"""What private training costs beside exact training, in one run.

    python benchmarks/private.py [--json private.json]     about a minute on one core; at least 1.0 is wanted

Graph: eight shards of linear adapters, private edges between all of them, by the default recipe, against one exact
group of all eight. One shard is trained, and counted eight times.

Group: one group of Open-InCA adapters, same data, same number of steps, same batch. The exact group has batches of 32.
The private one has 32 own samples in every step and, on average, 32 private ones: twice the samples, per-sample norms
and noise on top. With one owner per class, as in the paper, each of the 24 has one own sample in a step.

Printed is 2.5 / (private time / exact time).
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from shardgraph.learn.group import train_group
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training.private_group import train_private_group
from shardgraph.learn.private.training.secure import SecureNoise
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

WANTED, MOST = 1.0, 2.5
GRAPH_CLASSES, GRAPH_OWN, GRAPH_DIM = 98, 1017, 1280  # Stanford Cars in eight shards, half of its classes
CLASSES, PER_CLASS, TOKENS, DIM, BATCH = 24, 12, 197, 192, 32  # a shard of ViT-Tiny tokens and as many neighbours


def made_up_samples(seed: int = 0) -> Samples:
    """Twice as many classes as the group has adapters for: the second half belongs to neighbours."""
    rng = np.random.default_rng(seed)
    count = 2 * CLASSES * PER_CLASS
    labels = tuple(f"{i // PER_CLASS:03d}" for i in range(count))
    tokens = rng.standard_normal((count * TOKENS, DIM)).astype(np.float16)
    ids = tuple(f"{i:05d}" for i in range(count))
    features = rng.standard_normal((count, DIM)).astype(np.float32)
    return Samples(ids, labels, tokens, np.arange(count + 1) * TOKENS, features)


def seconds(works: list[Callable[[], object]], repeat: int) -> list[float]:
    """Processor time of each, the best of some runs taken in turn: the machine may be shared."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeat):
        for work, spent in zip(works, times, strict=True):
            start = time.process_time()
            work()
            spent.append(time.process_time() - start)
    return [min(spent) for spent in times]


def measure(owners: str, repeat: int, epochs: int = 10) -> dict[str, float | str]:
    """Both times, for one owner of all adapters ("shard") or one owner each, as in the paper ("class")."""
    samples = made_up_samples()
    classes = tuple(sorted(set(samples.labels)))[:CLASSES]
    own = np.array([label in classes for label in samples.labels])
    positive = np.array([[label == each for label in samples.labels] for each in classes])
    direct = np.broadcast_to(own, positive.shape) if owners == "shard" else positive
    private = ~direct
    recipe = Recipe(loss="bce", epochs=epochs, batch=BATCH)
    steps = epochs * -(-len(samples) // BATCH)
    privacy = PrivateRecipe(
        noise=1.0,
        rate=BATCH / private.any(axis=0).sum(),
        steps=steps,
        lr=0.05,
        direct_steps=1,
        direct_batch=BATCH if owners == "shard" else max(1, BATCH // CLASSES),
        readers=1 if owners == "shard" else CLASSES,
    )
    names = ["shard"] * CLASSES if owners == "shard" else None

    def private_training() -> object:
        return train_private_group("g", samples, classes, direct, private, recipe, 0, privacy, SecureNoise(), names)

    exact, spent = seconds([lambda: train_group("g", samples, classes, recipe, 0), private_training], repeat)
    return {"owners": owners, "steps": steps, "exact_s": exact, "private_s": spent, "ratio": spent / exact}


def measure_graph(repeat: int) -> dict[str, float | str]:
    """Eight shards with private edges between all of them, against one exact group of all."""
    rng, shards = np.random.default_rng(0), 8
    count = shards * GRAPH_OWN
    labels = tuple(f"{i % GRAPH_CLASSES:03d}" for i in range(count))
    features = rng.standard_normal((count, GRAPH_DIM)).astype(np.float32)
    ids = tuple(f"{i:05d}" for i in range(count))
    samples = Samples(ids, labels, np.zeros((count, 1), np.float16), np.arange(count + 1), features)
    classes = tuple(sorted(set(labels)))
    direct = np.tile(np.arange(count) < GRAPH_OWN, (len(classes), 1))
    recipe, privacy = Recipe(adapter="linear", loss="bce", lr=1e-3), PrivateRecipe(noise=10.0)

    def one_shard() -> object:
        names = ["s"] * len(classes)
        return train_private_group("s", samples, classes, direct, ~direct, recipe, 0, privacy, SecureNoise(), names)

    exact, spent = seconds([lambda: train_group("g", samples, classes, recipe, 0), one_shard], repeat)
    ratio = shards * spent / exact
    return {"owners": "graph", "steps": privacy.steps, "exact_s": exact, "private_s": shards * spent, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [measure_graph(1), *(measure(owners, arguments.repeat) for owners in ("shard", "class"))]
    names = {"graph": "private-over-exact-graph", "shard": "private-over-exact", "class": "private-over-exact-by-class"}
    for row in rows:
        print(f"bench {names[str(row['owners'])]} {MOST / float(row['ratio']):.2f} {WANTED}")
    result = {"benchmark": "private", "most": MOST, "wanted": WANTED, "rows": rows}
    print(json.dumps(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
