"""CSV and TSV tables: UTF-8, with a header; every cell is text, so that an id 007 stays 007."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

from shardgraph.embedding.readers.table import Row, TableReader
from shardgraph.embedding.remote import Place, opened, place_of
from shardgraph.errors import InputError


class DelimitedReader(TableReader):
    """A CSV (or, by its suffix, TSV) file as records."""

    def __init__(self, path: str | Place, *given: Any, **options: Any) -> None:
        self._delimiter = "\t" if place_of(path).suffix.lower() == ".tsv" else ","
        self._length: int | None = None
        super().__init__(path, *given, **options)

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self._rows())
        return self._length

    def _header(self) -> list[str]:
        with self._open() as file:
            return next(csv.reader(file, delimiter=self._delimiter), [])

    def _rows(self) -> Iterator[Row]:
        with self._open() as file:
            for number, row in enumerate(csv.DictReader(file, delimiter=self._delimiter, strict=True), start=1):
                if None in row or None in row.values():
                    raise InputError(
                        f"every row of '{self.path.name}' must have as many cells as its header, row {number} has not"
                    )
                yield {key: row[column] or None for key, column in self.columns.items()}

    @contextmanager
    def _open(self) -> Iterator[TextIOWrapper]:
        try:
            with opened(self.path) as file:
                yield TextIOWrapper(file, encoding="utf-8-sig", newline="")
        except csv.Error as problem:
            raise InputError(f"'{self.path.name}' must be a table, got {_trouble(problem)}") from problem
        except (UnicodeDecodeError, OSError) as problem:
            raise InputError(f"'{self.path.name}' must be a table in UTF-8, got {problem}") from problem


def _trouble(problem: csv.Error) -> str:
    if "field limit" not in str(problem):
        return str(problem)
    most = csv.field_size_limit()
    return f"a cell of more than {most:,} characters: close its quotes if one is open, else save it as .parquet"
