"""The embedding cache: each data set once through each backbone, then read by every experiment.

    python -m experiments.cache FILE.parquet ... --backbone efficientnet-lite2 --cache CACHE

A folder CACHE/SET--BACKBONE holds tokens.npy, offsets.npy, features.npy and table.json, which says of what samples and
weights they were made: a cache of others is never taken for it. Passes are as large as the device likes, so the bits
may differ from those of a workspace, where each sample's bits must depend on it alone.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import paper
from experiments.command import run_command
from shardgraph.digest import keyed_hash
from shardgraph.embedding.records import content_id
from shardgraph.errors import InputError
from shardgraph.storage.samples import TEST, TRAIN, Samples

PASS = 256  # images in one pass
HELD_OUT = " (held out)"
MADE = "`python -m experiments.cache FILE ... --backbone NAME --cache CACHE` makes one"


@dataclass(frozen=True)
class Data:
    """A data set as embedded by one backbone: what is learned from, and what accuracy is measured on."""

    name: str
    backbone: str
    train: Samples
    test: Samples

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the training split, sorted."""
        return tuple(sorted(set(self.train.labels)))

    def held_out(self, seed: int = 99, parts: int = 5) -> "Data":
        """One of `parts` of the training split to choose recipes on; the test split is left alone."""
        chosen = np.array([keyed_hash(seed, "held-out", name) % parts == 0 for name in self.train.ids])
        train, test = self.train.take(np.flatnonzero(~chosen)), self.train.take(np.flatnonzero(chosen))
        return Data(f"{self.name}{HELD_OUT}", self.backbone, train, test)


def load(cache: Path, name: str) -> Data:
    """The data set in the cache's folder `name`."""
    folder, table = cache / name, _table(cache, name)
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
    found = sorted(path.parent.name for path in cache.glob("*/table.json"))
    if not found:
        state = "is empty" if cache.is_dir() else "does not exist"
        raise InputError(f"a cache must hold embedded data sets, '{cache}' {state}: {MADE}")
    return found


def usable(cache: Path, only: Sequence[str] | None = None) -> list[str]:
    """The data sets in a cache, or those that are named, if something can be learned and measured on each."""
    chosen = list(only or names(cache))
    for name in chosen:
        table = _table(cache, name)
        learned = {label for label, split in zip(table["labels"], table["splits"], strict=True) if split == TRAIN}
        if len(learned) < 2:
            raise InputError(f"{name!r} in '{cache}' must have two classes to learn, found {len(learned)}: {_LABELS}")
        if TEST not in table["splits"]:
            raise InputError(f"{name!r} in '{cache}' must have test samples to measure accuracy on: {_REMEDY}")
    return chosen


def embed_file(
    path: Path, spec: str, cache: Path, device: str, pairs: Sequence[str] = (), backbone_path: str | None = None
) -> Path:
    """Embed a table or a folder of images into the cache, unless it is there; `pairs` are its columns, MEANING=NAME.

    `backbone_path` is where the backbone lies, if its name does not say it.
    """
    from shardgraph.cli.reading import named_columns  # these need pyarrow and Pillow
    from shardgraph.embedding.backbones.registry import load_backbone
    from shardgraph.embedding.backbones.vision import ImageBackbone
    from shardgraph.embedding.readers.columns import columns_of
    from shardgraph.embedding.readers.registry import read

    columns = columns_of(named_columns(pairs))
    reader, network = read(path, columns), load_backbone(spec, path=backbone_path, device=device)
    if reader.modality != network.modality:
        raise InputError(f"{spec!r} reads {network.modality}s, '{path.name}' holds {reader.modality}s: choose another")
    records = list(reader)
    name, backbone = set_name(path), backbone_name(spec)
    folder = cache / f"{name}--{backbone}"
    kept = {f"{column}s": [getattr(record, column) for record in records] for column in _COLUMNS}
    table = {"name": name, "backbone": backbone, "identity": network.identity, "data": _digest(records), **kept}
    if (folder / "table.json").exists():
        _check_same(folder, table)
        return folder
    through = _images(records, network) if isinstance(network, ImageBackbone) else _one_by_one(records, network)
    tokens, features = zip(*through, strict=True)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "tokens.npy", np.concatenate(tokens))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum([len(part) for part in tokens])]).astype(np.int64))
    np.save(folder / "features.npy", np.stack(features))
    partial = folder / "table.partial"
    partial.write_text(json.dumps(table))
    partial.rename(folder / "table.json")
    return folder


def set_name(path: Path) -> str:
    """What a data set is called: as its file is, but cub200_s128.parquet and the like as in the paper."""
    whole = path.resolve().name if path.is_dir() else path.stem
    known = whole.partition("_")[0]
    return known if known in paper.SPLITS else whole


def backbone_name(spec: str) -> str:
    """What a backbone is called: by its file, or on a model hub by its owner too."""
    kind, _, rest = spec.partition(":")
    if kind == "hf":
        return "-".join(Path(rest.strip("/")).parts[-2:])
    if kind in ("timm", "registered", "python"):
        return "-".join(part for part in rest.split("/")[-1].split(":") if part)
    return Path(rest or kind).stem


def _table(cache: Path, name: str) -> dict[str, Any]:
    path = cache / name / "table.json"
    if not path.exists():
        there = ", ".join(names(cache))
        raise InputError(f"{name!r} must be in the cache '{cache}', which has {there}: name one (--data, --only)")
    table: dict[str, Any] = json.loads(path.read_text())
    return table


def _digest(records: Sequence[Any]) -> str:
    """Of all that is embedded and kept."""
    whole = hashlib.sha256()
    for record in records:
        columns = [getattr(record, column) for column in _COLUMNS]
        whole.update(json.dumps([*columns, content_id(record.payload)]).encode())
    return whole.hexdigest()


def _check_same(folder: Path, table: dict[str, Any]) -> None:
    """Raise if a folder in the cache was made of other samples or weights."""
    found = json.loads((folder / "table.json").read_text())
    remedy = "choose another --cache, or delete that folder and the records of its runs"
    if found.get("data", table["data"]) != table["data"]:
        raise InputError(f"'{folder}' must be made of these samples, it is of others or of other columns: {remedy}")
    if any(found["identity"].get(key) != table["identity"][key] for key in ("weights", "layer")):
        raise InputError(f"'{folder}' must be made with this backbone, it is with another that ends alike: {remedy}")


_LABELS = "look at its labels and its split, delete it from the cache and embed it again"
_REMEDY = "give it a column 'split' or folders train and test, delete it from the cache and embed it again"
_COLUMNS = ("id", "label", "source", "split")


def _one_by_one(records: Sequence[Any], network: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokens and features of every record, in order, as a workspace embeds them."""
    from shardgraph.embedding.pipeline import embed

    for part in embed(records, network):
        for i in range(len(part)):
            yield part.tokens[part.offsets[i] : part.offsets[i + 1]], part.features[i]


def _images(records: Sequence[Any], network: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokens and features of every image, in order; decoded by as many processes as there are cores."""
    from shardgraph.embedding.backbones.decoders import exact_numerics

    global _network
    _network = network
    with exact_numerics(), torch.inference_mode(), multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        batch: list[np.ndarray] = []
        for i, pixels in enumerate(pool.imap(_prepare, records, chunksize=64)):
            batch.append(pixels)
            if len(batch) == PASS or i + 1 == len(records):
                tokens, features = network.forward(network.stack(batch).to(network.device))
                yield from zip(tokens.half().cpu().numpy(), features.float().cpu().numpy(), strict=True)
                batch = []


_network: Any = None  # what a process that decodes was forked with


def _prepare(record: Any) -> np.ndarray:
    try:
        prepared: np.ndarray = _network.prepare(record.payload)
    except InputError as problem:
        raise InputError(f"samples must be readable, {record.id!r} cannot be read ({problem})", [record.id]) from None
    return prepared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--backbone", action="append", required=True)
    parser.add_argument("--backbone-path", metavar="PATH", help="where it lies, if its name does not say it")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--column", action="append", default=[], metavar="MEANING=NAME")
    options = parser.parse_args()
    for path in options.files:
        for spec in options.backbone:
            start = time.perf_counter()
            folder = embed_file(path, spec, options.cache, options.device, options.column, options.backbone_path)
            print(f"{folder} {time.perf_counter() - start:.1f} s", flush=True)
            if TEST not in _table(options.cache, folder.name)["splits"]:
                print(f"{folder} has no test samples, experiments need some: {_REMEDY}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_command(main)
