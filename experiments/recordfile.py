"""Files of records: one line of JSON for each measurement, one file for each data set.

A measurement that is recorded is not run again.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardgraph.errors import InputError

Record = dict[str, Any]
KEYS = (
    "study",
    "rival",
    "adapter",
    "n",
    "seed",
    "shape",
    "gone",
    "change",
    "k",
)  # what a record is about; the rest was measured


class RecordFile:
    """The records in a file, with appending and lookup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, self._torn = _read(path)

    def has(self, **about: Any) -> bool:
        """Whether a record with these values exists."""
        return any(all(record.get(key) == value for key, value in about.items()) for record in self.records)

    def add(self, records: Iterable[Record]) -> None:
        """Append each record as it arrives, unless one with the same keys exists."""
        for record in records:
            line = json.dumps(record) + "\n"
            record = json.loads(line)
            if not self.has(**{key: record.get(key) for key in KEYS}):
                self._append(line)
                self.records.append(record)

    def _append(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if self._torn:
                file.truncate(file.tell() - self._torn)
                self._torn = 0
            file.write(line.encode())


def read(path: Path) -> list[Record]:
    """The records in a file; an incomplete last line is ignored."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Record], int]:
    """The records, and the number of bytes of an incomplete last line."""
    *lines, torn = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return [_record(line, path, i) for i, line in enumerate(lines, start=1)], len(torn)


def _record(line: bytes, path: Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise InputError(f"line {number} of '{path}' must be a record in JSON, got {line[:40]!r}: delete that line")
    return record
