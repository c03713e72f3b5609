"""The samples of the scenarios: exact binary fractions from a hash, so that no library's version changes them."""

import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

CLASSES = ("ant", "bee", "cat", "dog")
SOURCES = ("ann", "bob", "web")
COUNT, TOKENS, DIM = 60, 2, 8


def values(name: str, *shape: int) -> np.ndarray:
    """Multiples of 1/64 between -2 and 2, given by a name alone; float16 holds them exactly."""
    raw = hashlib.shake_256(name.encode()).digest(int(np.prod(shape)))
    return (np.frombuffer(raw, np.int8).astype(np.float32) / 64).reshape(shape)


def arrays(count: int = COUNT, start: int = 0, tokens: int = TOKENS) -> dict[str, np.ndarray]:
    """Samples s-000, s-001, ...: classes and sources in turn, four samples a subject, every tenth held out."""
    numbers = np.arange(start, start + count)
    centres = 2 * np.eye(len(CLASSES), DIM, dtype=np.float32)[numbers % len(CLASSES)][:, None]
    return {
        "tokens": np.stack([values(f"sample {i}", tokens, DIM) for i in numbers]) + centres,
        "labels": np.array([CLASSES[i % len(CLASSES)] for i in numbers]),
        "ids": np.array([f"s-{i:03d}" for i in numbers]),
        "sources": np.array([SOURCES[i % len(SOURCES)] for i in numbers]),
        "subjects": np.array([f"p{i // 4}" for i in numbers]),
        "splits": np.array(["test" if i % 10 == 5 else "train" for i in numbers]),
    }


def write_samples(folder: Path) -> Path:
    """Write every file that the scenarios name, and return the folder.

    base.npz        60 samples
    more.npz        12 others
    overlap.npz     the last 6 of base.npz and the first 6 of more.npz
    return.npz      s-001 alone
    rare.npz        base.npz and 2 samples of a class "elk" that no other file has
    uneven.npz      base.npz's names with 1 to 4 tokens a sample
    features.npz    base.npz's names with pooled vectors alone, integer labels and a class list
    unnamed.npz     12 samples without ids, sources, subjects and splits
    base.safetensors    base.npz, its strings in the header
    twins.npz       base.npz and a copy of s-001 and of s-002 under other names
    new.npz         3 samples without labels
    ids.txt         3 names, one a line
    graph.json      a graph over the sources
    weighted.json   a graph with one private edge
    topology.json   a topology as config.json holds it
    """
    folder.mkdir(parents=True, exist_ok=True)
    base, more = arrays(), arrays(12, start=COUNT)
    np.savez(folder / "base.npz", **base)
    np.savez(folder / "more.npz", **more)
    np.savez(folder / "overlap.npz", **arrays(12, start=COUNT - 6))
    np.savez(folder / "return.npz", **arrays(1, start=1))
    _write_rare(folder / "rare.npz", base)
    lengths = np.array([1 + i % 4 for i in range(COUNT)])
    mask = np.arange(4)[None] < lengths[:, None]
    np.savez(folder / "uneven.npz", **arrays(tokens=4) | {"mask": mask})
    pooled = {name: base[name] for name in ("ids", "sources", "subjects", "splits")}
    pooled |= {"features": base["tokens"][:, 0], "classes": np.array(CLASSES)}
    np.savez(folder / "features.npz", **pooled, labels=np.arange(COUNT) % len(CLASSES))
    np.savez(folder / "unnamed.npz", tokens=more["tokens"], labels=more["labels"])
    strings = {name: json.dumps(base[name].tolist()) for name in base if name != "tokens"}
    save_file({"tokens": base["tokens"]}, folder / "base.safetensors", metadata=strings)
    _write_twins(folder / "twins.npz", base)
    np.savez(folder / "new.npz", tokens=more["tokens"][:3], ids=np.array(["n1", "n2", "n3"]))
    (folder / "ids.txt").write_text("s-004\ns-011\ns-025\n")
    graph = {"shards": ["ann", "bob", "web"], "edges": [["ann", "bob"], ["web", "bob"]]}
    (folder / "graph.json").write_text(json.dumps(graph))
    weighted = graph | {"edges": [["ann", "bob"], ["web", "bob", 2.0]]}
    (folder / "weighted.json").write_text(json.dumps(weighted))
    (folder / "topology.json").write_text(json.dumps({"kind": "bilevel", "coarse": 1, "fine": 2}))
    return folder


def _write_rare(path: Path, base: dict[str, np.ndarray]) -> None:
    rare = arrays(2, start=96) | {"labels": np.array(["elk", "elk"]), "splits": np.array(["train", "train"])}
    np.savez(path, **{name: np.concatenate([base[name], rare[name]]) for name in base})


def _write_twins(path: Path, base: dict[str, np.ndarray]) -> None:
    copies = {name: column[1:3] for name, column in base.items()}
    copies |= {"ids": np.array(["twin-1", "twin-2"]), "sources": np.array(["web", "ann"])}
    np.savez(path, **{name: np.concatenate([base[name], copies[name]]) for name in base})
