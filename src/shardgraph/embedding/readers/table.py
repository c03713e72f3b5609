"""TableReader: what tables (Parquet, CSV, TSV, JSON lines, frames in memory) share; one row is one sample.

Ids are the user's own: the id column, else the path where images are given by path. Otherwise the id is the digest of
the content ("sha256:..."). Then rows with equal content, label, source, subject and split are one sample and are read
once; equal content with another label is an error, since the two would have one id. What is only to be predicted is
not merged: every row gets a prediction.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.readers.columns import Columns, modality
from shardgraph.embedding.records import EMBEDDING, TEXT, UNLABELLED, Payload, Record, content_id
from shardgraph.embedding.remote import Place, RemotePath, beside, place_of
from shardgraph.errors import DuplicateSample, InputError
from shardgraph.storage.samples import TRAIN

Row = Mapping[str, Any]
_TEXTS = ("id", "path", "label", "source", "subject", "split")  # columns that hold text


class TableReader(Reader):
    """A table as records, in the order of its rows, a batch of rows in memory at a time.

    If a table has several kinds of content, that of the modality that it is read `for_` is taken.
    """

    def __init__(
        self, path: str | Place, columns: Columns | None = None, *, labelled: bool = True, for_: str | None = None
    ) -> None:
        self.path = place_of(path)
        self.columns = (columns or Columns()).resolve(self._header(), labelled=labelled, modality=for_)
        self._labelled = labelled
        self.modality = modality(self.columns)
        self.repeats = 0  # rows of the last reading that repeated another row's sample
        self._require_rows()

    def _require_rows(self) -> None:
        if not len(self):
            raise InputError(f"'{self.path.name}' must have at least one row, got none")

    @abstractmethod
    def _header(self) -> list[str]:
        """The names of all columns."""

    @abstractmethod
    def _rows(self) -> Iterator[Row]:
        """Rows as meaning -> value, integers replaced by their names where these are known."""

    def __iter__(self) -> Iterator[Record]:
        self.repeats, seen = 0, dict[bytes, bytes]()
        named = "id" in self.columns or "path" in self.columns or not self._labelled
        for number, row in enumerate(self._rows(), start=1):
            record = self._record(row, number)
            if named or self._is_new(record, seen):
                yield record

    def _record(self, row: Row, number: int) -> Record:
        where = f"row {number} of '{self.path.name}'"
        text = {key: as_text(value, f"column {key!r} in {where}") for key, value in row.items() if key in _TEXTS}
        payload = self._payload(row, where)
        own = text.pop("id", "") if "id" in self.columns else text.get("path", "")
        if "id" in self.columns and not own:
            raise InputError(f"an id must not be empty, {where} has none")
        if not own and not len(_measured(payload)):
            raise InputError(f"a sample must have an id or content, {where} has neither")
        text.pop("path", None)
        if not self._labelled:
            text["label"] = UNLABELLED
        text["split"] = text.get("split") or TRAIN
        try:
            return Record(id=own or content_id(payload), payload=payload, **text)
        except InputError as problem:
            raise InputError(f"{problem}: {where}", problem.ids) from problem

    def _payload(self, row: Row, where: str) -> Payload:
        """The row's content; empty bytes, which no backbone reads, where there is none."""
        if self.modality == EMBEDDING:
            return self._embedding(row["embedding"], where)
        value = row.get("image", row.get("text"))
        if isinstance(value, dict):  # how `datasets` writes images
            value = value.get("bytes") or (beside(self.path.parent, value["path"]) if value.get("path") else None)
        if "path" in self.columns and row.get("path"):
            value = beside(self.path.parent, str(row["path"]))
        if not isinstance(value, bytes | str | Path | RemotePath | None):
            kind, wanted = ("text", "text") if self.modality == TEXT else ("image", "the bytes of encoded images")
            raise InputError(f"column {self.columns[kind]!r} must hold {wanted}, {where} has {type(value).__name__}")
        return b"" if value is None else value

    def _embedding(self, value: Any, where: str) -> np.ndarray:
        """A vector [d] of one sample, or its tokens [t, d]."""
        column = self.columns["embedding"]
        try:
            found = np.asarray(value) if isinstance(value, np.ndarray) else np.array(value, np.float64)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if not isinstance(value, list | np.ndarray) or found.ndim not in (1, 2) or not found.size:
            raise InputError(f"column {column!r} must hold lists of numbers, {where} has {value!r:.60}")
        return found

    def _is_new(self, record: Record, seen: dict[bytes, bytes]) -> bool:
        key = bytes.fromhex(record.id.removeprefix("sha256:"))[:16]
        rest = "\0".join([record.label, record.source, record.subject, record.split])
        mark = hashlib.sha256(rest.encode()).digest()[:16]
        if key not in seen:
            seen[key] = mark
            return True
        if seen[key] != mark:
            message = f"{record.id!r} is twice in '{self.path.name}', with another label, source, subject or split"
            raise DuplicateSample(f"{message}: name a column with ids", [record.id])
        self.repeats += 1
        return False


def _measured(payload: Payload) -> Any:
    """The payload, or what stands for a file that is not read here; its length is 0 if there is no content."""
    return "file" if isinstance(payload, Path | RemotePath) else payload


def as_text(value: Any, where: str) -> str:
    """A cell as text: integers as digits, null as ""; other types are refused."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():  # how pandas writes integers beside nulls
        value = int(value)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if not isinstance(value, str | int):
        raise InputError(f"{where} must hold text or integers, got {type(value).__name__}")
    return str(value)
