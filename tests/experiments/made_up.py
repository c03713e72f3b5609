"""Small data sets, and records of runs that nobody ran."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments import others, paper, runs
from experiments.cache import Data
from experiments.recordfile import Record, RecordFile
from shardgraph.storage.samples import Samples


def samples(count: int, classes: int = 4, sources: int = 1, dim: int = 8, seed: int = 0) -> Samples:
    """Two tokens a sample, classes and sources in turn."""
    rng, labels = np.random.default_rng(seed), np.arange(count) % classes
    tokens = (rng.normal(size=(2 * count, dim)) + 2 * np.eye(classes, dim)[labels.repeat(2)]).astype(np.float16)
    features = tokens.reshape(count, 2, dim).mean(axis=1).astype(np.float32)
    ids = tuple(f"{seed}-{i}" for i in range(count))
    names = tuple(f"from {i // classes % sources}" for i in range(count))
    return Samples(ids, tuple(f"class {i}" for i in labels), tokens, np.arange(count + 1) * 2, features, names)


def data(count: int, classes: int = 4, sources: int = 1) -> Data:
    return Data("made_up", "toy", samples(count, classes, sources), samples(20, classes, sources, seed=1))


def cached(cache: Path, name: str = "made_up--toy", classes: int = 4, test: bool = True) -> Path:
    """A folder in a cache, as older ones are: it does not say what it was made of."""
    own, folder = samples(40, classes), cache / name
    folder.mkdir(parents=True)
    for column in ("tokens", "offsets", "features"):
        np.save(folder / f"{column}.npy", getattr(own, column))
    data, _, backbone = name.partition("--")
    splits = ["test" if test and i % 8 > 3 else "train" for i in range(len(own))]
    columns = {"ids": own.ids, "labels": own.labels, "sources": own.sources, "splits": splits}
    (folder / "table.json").write_text(json.dumps({"name": data, "backbone": backbone, "identity": {}, **columns}))
    return cache


def recorded(folder: Path, name: str = "made_up--toy") -> Path:
    """All records of a data set with four classes but those of private edges and the ablation."""
    RecordFile(folder / f"{name}.jsonl").add(_records())
    return folder


def _records() -> Iterator[Record]:
    known = {1: (1, 1)} | dict(zip(paper.LEVELS, paper.SPLITS["pacs"], strict=True))
    for who in runs.ALONE:
        yield {"rival": who, "n": 0, "seed": 0, "adapter": "none", "accuracy": 40.0, "cost": 0.0}
    for seed in runs.SEEDS:
        for adapter in ("inca", "linear"):
            for who, n in runs.methods_at(known):
                about = {"rival": who, "n": n, "seed": seed, "adapter": adapter, "shape": known[n]}
                yield about | {"accuracy": 50.0 + seed, "cost": 8 / n, "samples": 8}
        for who in runs.INSTANT:
            for step in range(runs.STEPS):
                about = {"study": "instant", "rival": who, "n": 256, "seed": seed, "gone": step / runs.STEPS}
                yield about | {"accuracy": 40.0}
        for who in runs.FINE:
            for shape in ((64, 1), (32, 2)):
                yield {"study": "fine", "rival": who, "n": 64, "shape": shape, "seed": seed, "accuracy": 30.0}
        for who in others.WHO[1:3]:
            yield {"study": "others", "rival": who, "n": 64, "seed": seed, "accuracy": 20.0, "cost": 2.0, "bytes": 9}
