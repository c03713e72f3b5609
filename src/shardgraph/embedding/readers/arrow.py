"""Tables in Arrow's format: what Parquet files, frames and streams in memory share.

A `FrameReader` reads anything that speaks the Arrow PyCapsule protocol (`__arrow_c_stream__`): pandas, polars, DuckDB,
ADBC, pyarrow's tables and readers; and `datasets` of Hugging Face, batch by batch. A stream can be read once.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardgraph.embedding.readers.columns import Columns, class_names
from shardgraph.embedding.readers.table import Row, TableReader
from shardgraph.errors import InputError

ROWS = 256  # that are made into records at a time

Batches = Iterable["pa.RecordBatch | pa.Table"]


class ArrowReader(TableReader):
    """A table in batches as records; class names come from the metadata of the schema."""

    @abstractmethod
    def _schema(self) -> pa.Schema:
        """The names and types of all columns."""

    @abstractmethod
    def _batches(self, columns: list[str]) -> Batches:
        """The batches, with at least these columns."""

    def _header(self) -> list[str]:
        return list(self._schema().names)

    def _rows(self) -> Iterator[Row]:
        metadata = self._schema().metadata
        names = {key: class_names(key, column, metadata) for key, column in self.columns.items()}
        done = 0
        for given in self._batches(list(self.columns.values())):
            for start in range(0, given.num_rows, ROWS):
                batch = given.slice(start, ROWS)
                cells = {key: self._cells(key, batch.column(column), done) for key, column in self.columns.items()}
                for i in range(batch.num_rows):
                    yield {key: _named(column[i], names[key], key) for key, column in cells.items()}
                done += batch.num_rows

    def _cells(self, key: str, column: "pa.Array | pa.ChunkedArray", done: int) -> list[Any]:
        """The values of a column; `done` rows came before."""
        if key != "embedding":
            values: list[Any] = column.to_pylist()
            return values
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        try:
            return _vectors(column)
        except _Odd as odd:
            where = f"row {done + odd.row + 1} of '{self.path.name}'"
            raise InputError(f"column {self.columns[key]!r} must hold {odd}, {where} does not") from None


class FrameReader(ArrowReader):
    """A frame, table, stream or data set in memory as records; its paths are relative to the working directory."""

    def __init__(self, data: Any, *given: Any, **options: Any) -> None:
        self._found, self._make = _stream_of(data)
        self._used = False
        super().__init__(Path(type(data).__name__), *given, **options)

    def __len__(self) -> int:
        raise TypeError("the number of rows of a stream is not known before it is read")

    def _require_rows(self) -> None:
        """A stream shows that it has no rows when it is read."""

    def _schema(self) -> pa.Schema:
        return self._found

    def _batches(self, columns: list[str]) -> Batches:
        assert not self._used, "a stream can be read once"
        self._used = True
        rows = 0
        try:
            for batch in self._make(columns):
                rows += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"'{self.path.name}' must be readable to its end, got {problem}") from problem
        if not rows:
            raise InputError(f"'{self.path.name}' must have at least one row, got none")


def is_frame(data: object) -> bool:
    """Whether a `FrameReader` can read it."""
    return hasattr(data, "__arrow_c_stream__") or _is_dataset(data)


def read_frame(data: Any, columns: Columns | None = None, **options: Any) -> FrameReader:
    """The reader of a frame, a table, a stream or a data set."""
    return FrameReader(data, columns, **options)


def _is_dataset(data: object) -> bool:
    """Whether it is a data set of `datasets`, which is not imported for the question."""
    return type(data).__module__.split(".")[0] == "datasets" and hasattr(data, "with_format") and hasattr(data, "iter")


def _stream_of(data: Any) -> tuple[pa.Schema, Callable[[list[str]], Batches]]:
    """The schema of the data, and a function that gives its batches, once."""
    if _is_dataset(data):
        if data.features is None:
            raise InputError("a data set must know its columns: give it features, or load it without streaming")
        schema = data.features.arrow_schema
        return schema, lambda columns: data.select_columns(columns).with_format("arrow").iter(ROWS)
    try:
        stream = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        words = " ".join(str(problem).split())
        raise InputError(f"'{type(data).__name__}' must be a table that Arrow can read, got {words}") from problem
    return stream.schema, lambda columns: stream


class _Odd(Exception):
    """A row of an embedding column that is not what the column must hold."""

    def __init__(self, wanted: str, row: int) -> None:
        super().__init__(wanted)
        self.row = row


def _vectors(column: pa.Array) -> list[np.ndarray]:
    """The vector [d] of every row, or its tokens [t, d] where rows are lists of lists; views of few large arrays."""
    column, lengths = _lists(column, 0)
    inner = column.flatten()
    if not _is_list(inner):
        return _cut(inner, lengths, "vectors of equal length")
    ends = np.cumsum(lengths)
    tokens, widths = _lists(inner, 0)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    try:
        flat = _cut(tokens.flatten(), widths, "tokens of equal length")
    except _Odd as odd:
        raise _Odd(str(odd), int(rows[odd.row])) from None
    if (lengths == 0).any():
        raise _Odd("at least one token", int(np.argmax(lengths == 0)))
    return [np.stack(flat[end - length : end]) for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def _lists(column: pa.Array, row: int) -> tuple[pa.Array, np.ndarray]:
    """A column of lists and their lengths; an error at the first row that is null."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not _is_list(column):
        raise _Odd(f"lists of floating-point numbers, got {column.type}", row)
    if column.null_count:
        raise _Odd("a list in every row", int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))))
    return column, pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)


def _is_list(column: pa.Array) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(kind(column.type) for kind in kinds)


def _cut(numbers: pa.Array, lengths: np.ndarray, wanted: str) -> list[np.ndarray]:
    """The numbers as rows of one length, each a view."""
    if not pa.types.is_floating(numbers.type):
        raise _Odd(f"lists of floating-point numbers, got lists of {numbers.type}", 0)
    other = lengths != lengths[0]
    if other.any() or not lengths[0]:
        raise _Odd(wanted, int(np.argmax(other)))
    if numbers.null_count:
        at = int(np.argmax(numbers.is_null().to_numpy(zero_copy_only=False)))
        raise _Odd("numbers that are not null", at // int(lengths[0]))
    return list(numbers.to_numpy(zero_copy_only=False).reshape(len(lengths), -1))


def _named(value: Any, names: list[str], meaning: str) -> Any:
    """A class's name for its integer, where there are names."""
    if not names or meaning == "id" or not isinstance(value, int):
        return value
    if not 0 <= value < len(names):
        raise InputError(
            f"integers of {meaning!r} must be from 0 to {len(names) - 1}, places of their names, got {value}"
        )
    return names[value]
