"""Parquet tables, read a few rows at a time whatever their row groups; class names from the schema's metadata."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardgraph.embedding.readers.columns import Columns, class_names
from shardgraph.embedding.readers.table import Row, TableReader
from shardgraph.errors import InputError

_ROWS = 256


class ParquetReader(TableReader):
    """A Parquet file as records."""

    def __init__(self, path: str | Path, columns: Columns | None = None, *, labelled: bool = True) -> None:
        try:
            self._file = pq.ParquetFile(path, memory_map=True)
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"'{Path(path).name}' must be a whole Parquet file, got {problem}") from problem
        super().__init__(path, columns, labelled=labelled)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def _header(self) -> list[str]:
        return list(self._file.schema_arrow.names)

    def _rows(self) -> Iterator[Row]:
        metadata = self._file.schema_arrow.metadata
        names = {key: class_names(key, column, metadata) for key, column in self.columns.items()}
        try:
            for batch in self._file.iter_batches(_ROWS, columns=list(self.columns.values())):
                cells = {key: batch.column(column).to_pylist() for key, column in self.columns.items()}
                for i in range(batch.num_rows):
                    yield {key: _named(column[i], names[key], key) for key, column in cells.items()}
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"'{self.path.name}' must be a whole Parquet file, got {problem}") from problem


def _named(value: Any, names: list[str], meaning: str) -> Any:
    """A class's name for its integer, where there are names."""
    if not names or meaning == "id" or not isinstance(value, int):
        return value
    if not 0 <= value < len(names):
        raise InputError(
            f"integers of {meaning!r} must be from 0 to {len(names) - 1}, places of their names, got {value}"
        )
    return names[value]
