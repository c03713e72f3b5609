"""The data of the demo: scikit-learn's handwritten digits as images, from a museum and seven schools."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardgraph.errors import InputError

COUNT = 720  # of 1797; more would take longer than two minutes on two cores
SIZE = 96  # pixels of the side of the image that the backbone gets
SOURCES = ("ash", "birch", "cedar", "elm", "museum", "oak", "rowan", "willow")
MARGIN = 16  # pixels on each side; the backbone crops them


@dataclass(frozen=True)
class Digit:
    """One image with its columns of the table."""

    id: str
    image: bytes  # PNG
    label: str
    source: str
    split: str


def digits(count: int | None = None) -> list[Digit]:
    """The first `count` digits, assigned to sources; a fifth of them is held out."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("the demo needs scikit-learn: pip install 'shardgraph[demo]'") from None
    found = load_digits()
    rows = zip(found.images[: count or COUNT], found.target.tolist(), strict=False)
    return [_digit(f"digit-{i:04d}", image, label) for i, (image, label) in enumerate(rows)]


def write_table(rows: Sequence[Digit], path: Path) -> Path:
    """Write a Parquet table with the default column names: id, image, label, source, split."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("id", "image", "label", "source", "split")
    pq.write_table(pa.table({name: [getattr(row, name) for row in rows] for name in names}), path)
    return path


def write_images(rows: Sequence[Digit], folder: Path) -> None:
    """Write every image to a file that is named by its id."""
    folder.mkdir()
    for row in rows:
        (folder / f"{row.id}.png").write_bytes(row.image)


def _digit(name: str, image: object, label: int) -> Digit:
    from shardgraph.digest import keyed_hash  # loads NumPy, which `--help` does not need

    source = SOURCES[keyed_hash(0, "source", name) % len(SOURCES)]
    split = "test" if keyed_hash(0, "split", name) % 5 == 0 else "train"
    return Digit(name, _png(image), str(label), source, split)


def _png(image: object) -> bytes:
    """The PNG of 8 x 8 levels from 0 to 16, dark on light, enlarged and centred."""
    import numpy as np
    from PIL import Image

    levels = np.rint(255 - np.asarray(image) * (255 / 16)).astype(np.uint8)
    picture = Image.new("L", (SIZE + 2 * MARGIN, SIZE + 2 * MARGIN), 255)
    picture.paste(Image.fromarray(levels).resize((SIZE, SIZE), Image.Resampling.BICUBIC), (MARGIN, MARGIN))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()
