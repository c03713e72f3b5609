"""Records: a line of JSON each, in a file a data set. What is written down is not run again."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardgraph.errors import InputError

Record = dict[str, Any]
ABOUT = ("study", "rival", "adapter", "n", "seed", "shape", "gone", "change", "k")  # the rest was measured


class Book:
    """Records in a file, found again by what they are about."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, self._torn = _read(path)

    def has(self, **about: Any) -> bool:
        """Whether there is a record about this."""
        return any(all(record.get(key) == value for key, value in about.items()) for record in self.records)

    def add(self, records: Iterable[Record]) -> None:
        """Write each record down as it comes, unless there is one about the same."""
        for record in records:
            line = json.dumps(record) + "\n"
            record = json.loads(line)
            if not self.has(**{key: record.get(key) for key in ABOUT}):
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
    """The records in a file; a last line that was cut off while it was written is passed over."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Record], int]:
    """The records, and how many bytes after them are of a line that has no end."""
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
