"""The embedding cache: each data set once through each backbone, then read by every experiment.

    python -m experiments.cache FILE.parquet ... --backbone efficientnet-lite2 --cache CACHE

A folder CACHE/SET--BACKBONE holds tokens.npy, offsets.npy, features.npy and table.json. Passes are as large as the
device likes, so the bits may differ from those of a workspace, where each sample's bits must depend on it alone.
"""

import argparse
import json
import multiprocessing
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shardgraph.data.samples import Samples
from shardgraph.digest import keyed_hash

PASS = 256  # images in one pass


@dataclass(frozen=True)
class Data:
    """A data set as embedded by one backbone: what is learned from, and what accuracy is measured on."""

    name: str
    backbone: str
    train: Samples
    test: Samples

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes to tell apart, sorted."""
        return tuple(sorted(set(self.train.labels)))

    def held_out(self, seed: int = 99, parts: int = 5) -> "Data":
        """One of `parts` of the training split to choose recipes on; the test split is left alone."""
        chosen = np.array([keyed_hash(seed, "held-out", name) % parts == 0 for name in self.train.ids])
        train, test = self.train.take(np.flatnonzero(~chosen)), self.train.take(np.flatnonzero(chosen))
        return Data(f"{self.name} (held out)", self.backbone, train, test)


def load(cache: Path, name: str) -> Data:
    """The data set in the cache's folder `name`."""
    folder = cache / name
    table = json.loads((folder / "table.json").read_text())
    samples = Samples(
        ids=tuple(table["ids"]),
        labels=tuple(table["labels"]),
        tokens=np.load(folder / "tokens.npy", mmap_mode="r"),
        offsets=np.load(folder / "offsets.npy"),
        features=np.load(folder / "features.npy"),
        sources=tuple(table["sources"]),
    )
    splits = np.array(table["splits"])
    parts = (samples.take(np.flatnonzero(splits == split)) for split in ("train", "test"))
    return Data(table["name"], table["backbone"], *parts)


def demo() -> Data:
    """Scikit-learn's digits, a row of pixels a token: small enough to try every experiment in a minute."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    ids = tuple(f"digit-{i}" for i in range(len(labels)))
    tokens = images.reshape(-1, 8).astype(np.float16)
    offsets = np.arange(len(labels) + 1, dtype=np.int64) * 8
    sources = tuple(("east", "west", "north", "south")[i % 4] for i in range(len(labels)))
    whole = Samples(ids, tuple(map(str, labels)), tokens, offsets, images.astype(np.float32), sources)
    test = np.array([keyed_hash(0, "test", name) % 3 == 0 for name in ids])
    return Data("digits", "pixels", whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test)))


def names(cache: Path) -> list[str]:
    """The data sets in a cache."""
    return sorted(path.parent.name for path in cache.glob("*/table.json"))


def embed_file(path: Path, spec: str, cache: Path, device: str, columns: dict[str, str]) -> Path:
    """Embed one Parquet file into the cache, unless it is there."""
    from shardgraph.data.backbones.registry import load_backbone  # these need pyarrow and Pillow
    from shardgraph.data.readers.columns import Columns
    from shardgraph.data.readers.registry import read

    name, backbone = re.sub(r"_.*", "", path.stem), Path(spec).stem.replace(":", "-")
    folder = cache / f"{name}--{backbone}"
    if (folder / "table.json").exists():
        return folder
    records = list(read(path, Columns(**columns)))
    network = load_backbone(spec, device=device)
    through = _texts(records, network) if network.modality == "text" else _images(records, network)
    tokens, features = zip(*through, strict=True)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "tokens.npy", np.concatenate(tokens))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum([len(part) for part in tokens])]).astype(np.int64))
    np.save(folder / "features.npy", np.stack(features))
    kept = {f"{column}s": [getattr(record, column) for record in records] for column in _COLUMNS}
    partial = folder / "table.partial"
    partial.write_text(json.dumps({"name": name, "backbone": backbone, "identity": network.identity, **kept}))
    partial.rename(folder / "table.json")
    return folder


_COLUMNS = ("id", "label", "source", "split")


def _texts(records: Sequence[Any], network: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from shardgraph.data.embedding import embed

    for part in embed(records, network):
        for i in range(len(part)):
            yield part.tokens[part.offsets[i] : part.offsets[i + 1]], part.features[i]


def _images(records: Sequence[Any], network: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokens and features of every image, in order; decoded by as many processes as there are cores."""
    from shardgraph.data.backbones.numerics import exact_numerics

    global _network
    _network = network
    payloads = [record.payload for record in records]
    with exact_numerics(), torch.inference_mode(), multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        batch: list[np.ndarray] = []
        for i, pixels in enumerate(pool.imap(_prepare, payloads, chunksize=64)):
            batch.append(pixels)
            if len(batch) == PASS or i + 1 == len(payloads):
                tokens, features = network.forward(network.stack(batch).to(network.device))
                yield from zip(tokens.half().cpu().numpy(), features.float().cpu().numpy(), strict=True)
                batch = []


_network: Any = None  # what a process that decodes was forked with


def _prepare(payload: Any) -> np.ndarray:
    return _network.prepare(payload)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--backbone", action="append", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--column", action="append", default=[], metavar="MEANING=NAME")
    options = parser.parse_args()
    columns = dict(pair.split("=", 1) for pair in options.column)
    for path in options.files:
        for spec in options.backbone:
            start = time.perf_counter()
            folder = embed_file(path, spec, options.cache, options.device, columns)
            print(f"{folder} {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
