"""Images and texts in a list: PIL images, arrays of pixels, bytes, paths, URLs, strings."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.readers.table import as_text
from shardgraph.embedding.records import IMAGE, TEXT, UNLABELLED, Payload, Record, content_id
from shardgraph.embedding.remote import RemotePath, is_url
from shardgraph.errors import InputError
from shardgraph.storage.samples import TRAIN


class ListReader(Reader):
    """Images or texts as records, in the order of the list.

    `columns` holds labels and, if there are any, ids, sources, subjects and splits; without it the items are only to be
    predicted. The id of an item is its path, else the digest of its content.
    """

    def __init__(self, modality: str, items: Sequence[Any], columns: Mapping[str, Sequence[Any]] | None) -> None:
        self.modality, self._items = modality, items
        if not items:
            raise InputError("data must hold at least one item, got none")
        self._columns = None if columns is None else self._checked(columns)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Record]:
        for i, item in enumerate(self._items):
            payload = _text(item, i) if self.modality == TEXT else _image(item, i)
            if self._columns is None:
                yield Record(str(i), UNLABELLED, payload)
                continue
            own = {name: values[i] for name, values in self._columns.items()}
            name = own.get("ids", "") or (str(item) if isinstance(item, str | Path) and self.modality == IMAGE else "")
            if "ids" in own and not name:
                raise InputError(f"an id must not be empty, item {i} has none")
            yield Record(
                name or content_id(payload),
                own["labels"],
                payload,
                own.get("sources", ""),
                own.get("subjects", ""),
                own.get("splits", "") or TRAIN,
            )

    def _checked(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
        """The columns as text, each with an entry per item."""
        if "labels" not in columns:
            raise InputError("a list needs labels: add(data, labels)")
        for name, values in columns.items():
            if len(values) != len(self):
                raise InputError(f"{name} must have one entry per item, got {len(values)} for {len(self)} items")
        return {
            name: [as_text(value.item() if isinstance(value, np.generic) else value, name) for value in values]
            for name, values in columns.items()
        }


def items_of(data: Any, modality: str) -> list[Any]:
    """The single images or texts of a list, an array or one item."""
    if hasattr(data, "detach"):  # of torch
        data = data.detach().cpu().numpy()
    if isinstance(data, np.ndarray) and modality == IMAGE:
        one = data.ndim == 2 or (data.ndim == 3 and data.shape[-1] in (1, 3, 4))
        return [data] if one else list(data)
    if isinstance(data, np.ndarray):
        return list(data.tolist()) if data.ndim == 1 else [data]
    return [data] if isinstance(data, bytes) or is_picture(data) else list(data)


def _text(item: Any, i: int) -> str:
    if not isinstance(item, str):
        raise InputError(f"this workspace takes texts, item {i} is {type(item).__name__}")
    return item


def _image(item: Any, i: int) -> Payload:
    """An image as bytes or where it lies; one in memory as PNG, which keeps every pixel."""
    if isinstance(item, bytes | Path | RemotePath):
        return item
    if isinstance(item, str):
        return RemotePath(item) if is_url(item) else Path(item)
    from PIL import Image, ImageOps

    if isinstance(item, np.ndarray):
        shape = item.shape[:2] if item.ndim == 3 and item.shape[-1] == 1 else item.shape
        if item.dtype != np.uint8 or len(shape) not in (2, 3):
            raise InputError(f"the pixels of an image must be uint8 [h, w] or [h, w, 3], item {i} is {item.dtype} "
                             f"{list(item.shape)}")  # fmt: skip
        item = Image.fromarray(np.ascontiguousarray(item.reshape(shape)))
    if not isinstance(item, Image.Image):
        raise InputError(f"this workspace takes images, item {i} is {type(item).__name__}")
    upright = ImageOps.exif_transpose(item)
    if upright.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "F"):
        upright = upright.convert("RGB")
    out = io.BytesIO()
    try:
        upright.save(out, "PNG")
    except (OSError, ValueError) as problem:
        raise InputError(f"an image must be readable, item {i} is not: {problem}") from problem
    return out.getvalue()


def is_picture(data: Any) -> bool:
    """Whether it is an image of PIL, which is not imported for the question."""
    return type(data).__module__.startswith("PIL.")
