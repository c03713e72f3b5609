"""JSON lines (`.jsonl`, `.ndjson`): UTF-8, one object per line; the columns are the names that occur in any of them."""

import json
from collections.abc import Iterator
from typing import Any

from shardgraph.embedding.readers.table import Row, TableReader
from shardgraph.embedding.remote import Place, opened
from shardgraph.errors import InputError

LONGEST = 64 << 20  # bytes of a line; a longer one is no record but a damaged or another kind of file


class JsonLinesReader(TableReader):
    """A file of JSON lines as records."""

    def __init__(self, path: str | Place, *given: Any, **options: Any) -> None:
        self._length = 0
        super().__init__(path, *given, **options)

    def __len__(self) -> int:
        return self._length

    def _header(self) -> list[str]:
        names: dict[str, None] = {}
        for row in self._objects():
            self._length += 1
            names |= dict.fromkeys(row)
        return list(names)

    def _rows(self) -> Iterator[Row]:
        for row in self._objects():
            yield {key: row.get(column) for key, column in self.columns.items()}

    def _objects(self) -> Iterator[dict[str, Any]]:
        """The objects of all lines that are not blank."""
        try:
            with opened(self.path) as file:
                number = 0
                while line := file.readline(LONGEST + 1):
                    number += 1
                    if line.strip():
                        yield self._parsed(line, number)
        except OSError as problem:
            raise InputError(f"'{self.path.name}' must be readable, got {problem}") from problem

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"line {number} of '{self.path.name}'"
        if len(line) > LONGEST:
            raise InputError(f"a line must have at most {LONGEST:,} bytes, {where} has more")
        try:
            found = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{where} must be one JSON object in UTF-8, got {problem}") from problem
        if not isinstance(found, dict):
            raise InputError(f"{where} must be one JSON object, got {type(found).__name__}")
        return found
