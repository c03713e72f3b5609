"""Records: samples as a reader gives them, before a backbone embeds them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shardgraph.digest import digest
from shardgraph.embedding.remote import RemotePath
from shardgraph.errors import InputError, check_text
from shardgraph.storage.samples import TEST, TRAIN

IMAGE, TEXT, EMBEDDING = "image", "text", "embedding"

Payload = bytes | str | Path | RemotePath | np.ndarray
UNLABELLED = "?"  # the label of a sample that is only to be predicted


@dataclass(frozen=True)
class Record:
    """One sample before embedding; `payload` is encoded image bytes, where an image file lies, text, or an embedding.

    `id` is the user's own id if there is one, else `content_id(payload)`: equal content then has an equal id, wherever
    it is read from. A file is read only when the record is embedded, so that a list of a million records holds no
    pixels.
    """

    id: str
    label: str
    payload: Payload
    source: str = ""
    subject: str = ""
    split: str = TRAIN

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("every sample must have an id that is not empty")
        if not self.label:
            raise InputError(f"every sample must have a label that is not empty, {self.id!r} has none", [self.id])
        if self.split not in (TRAIN, TEST):
            raise InputError(f"split must be 'train' or 'test', got {self.split!r} for {self.id!r}", [self.id])
        for name in ("id", "label", "source", "subject"):
            check_text((getattr(self, name),), f"the {name} of a sample")
        if isinstance(self.payload, str):
            check_text((self.payload,), "a text")


def content(payload: Payload) -> bytes:
    """The bytes of a payload: the file's if it is a path, UTF-8 if it is text."""
    assert not isinstance(payload, np.ndarray)
    if isinstance(payload, RemotePath):
        return payload.read_bytes()
    if isinstance(payload, Path):
        try:
            return payload.read_bytes()
        except OSError as problem:
            raise InputError(f"a file must be readable, got {problem}") from problem
    return payload.encode() if isinstance(payload, str) else payload


def content_id(payload: Payload) -> str:
    """The id of a sample that came without one: "sha256:" and the digest of its bytes, in hex."""
    if isinstance(payload, np.ndarray):
        return embedding_id(features=payload) if payload.ndim == 1 else embedding_id(tokens=payload)
    return "sha256:" + hashlib.sha256(content(payload)).hexdigest()


def embedding_id(**rows: np.ndarray) -> str:
    """The id of an embedding that came without one: the digest of its arrays, which are tokens, mask and features."""
    pieces: list[bytes | str] = []
    for name in ("tokens", "mask", "features"):
        if name in rows:
            row = np.ascontiguousarray(rows[name])
            little = row.astype(row.dtype.newbyteorder("<"), copy=False)
            pieces += [name, little.dtype.str, str(little.shape), little.tobytes()]
    return "sha256:" + digest(*pieces)
