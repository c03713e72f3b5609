"""Parquet tables, read a few rows at a time whatever their row groups; class names from the schema's metadata."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardgraph.embedding.readers.arrow import ROWS, ArrowReader, Batches
from shardgraph.embedding.remote import Place, RemotePath, place_of
from shardgraph.errors import InputError

_BLOCK = 1 << 20  # bytes that are read from a URL at a time


class ParquetReader(ArrowReader):
    """A Parquet file as records."""

    def __init__(self, path: str | Place, *given: Any, **options: Any) -> None:
        self.path = place_of(path)
        with self._whole():
            if isinstance(self.path, RemotePath):
                self._file = pq.ParquetFile(self.path.random_access(), buffer_size=_BLOCK, pre_buffer=False)
            else:
                self._file = pq.ParquetFile(self.path, memory_map=True)
        super().__init__(path, *given, **options)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def _schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def _batches(self, columns: list[str]) -> Batches:
        with self._whole():
            yield from self._file.iter_batches(ROWS, columns=columns)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Names the file in the errors of reading it."""
        try:
            if isinstance(self.path, RemotePath):
                with self.path.explained(pa.ArrowException):
                    yield
            else:
                yield
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"'{self.path.name}' must be a whole Parquet file, got {problem}") from problem
