"""The demo's data: scikit-learn's handwritten digits as pictures, given by a museum and seven schools."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardgraph.errors import InputError

COUNT = 720  # of the 1797 that there are: more would take longer than two minutes on two cores
SIZE = 96  # pixels that the backbone sees
SOURCES = ("ash", "birch", "cedar", "elm", "museum", "oak", "rowan", "willow")
MARGIN = 16  # the backbone keeps the middle of a picture: SIZE of SIZE + 32 pixels


@dataclass(frozen=True)
class Digit:
    """One picture with what the table says about it."""

    id: str
    image: bytes  # PNG
    label: str
    source: str
    split: str


def digits(count: int | None = None) -> list[Digit]:
    """The first digits, dealt to sources, a fifth of them held out."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("the demo needs scikit-learn: pip install 'shardgraph[demo]'") from None
    found = load_digits()
    rows = zip(found.images[: count or COUNT], found.target.tolist(), strict=False)
    return [_digit(f"digit-{i:04d}", image, label) for i, (image, label) in enumerate(rows)]


def write_table(rows: Sequence[Digit], path: Path) -> Path:
    """A Parquet table with columns that need no flags: id, image, label, source, split."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("id", "image", "label", "source", "split")
    pq.write_table(pa.table({name: [getattr(row, name) for row in rows] for name in names}), path)
    return path


def write_pictures(rows: Sequence[Digit], folder: Path) -> None:
    """Every picture as a file, by its id."""
    folder.mkdir()
    for row in rows:
        (folder / f"{row.id}.png").write_bytes(row.image)


def _digit(name: str, image: "object", label: int) -> Digit:
    from shardgraph.digest import keyed_hash  # which loads numpy; asking for help should not

    source = SOURCES[keyed_hash(0, "source", name) % len(SOURCES)]
    split = "test" if keyed_hash(0, "split", name) % 5 == 0 else "train"
    return Digit(name, _png(image), str(label), source, split)


def _png(image: "object") -> bytes:
    """Eight by eight levels from 0 to 16, dark on light, drawn smoothly in the middle of a picture."""
    import numpy as np
    from PIL import Image

    levels = np.rint(255 - np.asarray(image) * (255 / 16)).astype(np.uint8)
    picture = Image.new("L", (SIZE + 2 * MARGIN, SIZE + 2 * MARGIN), 255)
    picture.paste(Image.fromarray(levels).resize((SIZE, SIZE), Image.Resampling.BICUBIC), (MARGIN, MARGIN))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()
