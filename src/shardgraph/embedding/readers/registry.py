"""Readers by path: the kind of a file is recognised by its suffix."""

from pathlib import Path

from shardgraph.embedding.readers.columns import Columns
from shardgraph.embedding.readers.delimited import DelimitedReader
from shardgraph.embedding.readers.folder import FolderReader
from shardgraph.embedding.readers.parquet import ParquetReader
from shardgraph.errors import InputError

_TABLES: dict[str, type[ParquetReader | DelimitedReader]] = {
    ".parquet": ParquetReader,
    ".csv": DelimitedReader,
    ".tsv": DelimitedReader,
}
_ARRAYS = (".npz", ".safetensors")

AnyReader = FolderReader | ParquetReader | DelimitedReader


def read(path: str | Path, columns: Columns | None = None, *, labelled: bool = True) -> AnyReader:
    """The reader for a folder of images or a table (`columns` names its columns); arrays are read by `read_arrays`.

    Images and texts that are only to be predicted need not be `labelled`.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"a path must exist, '{path}' does not")
    suffix = path.suffix.lower()
    if columns is not None and suffix not in _TABLES:
        raise InputError(f"column names are for tables ({', '.join(_TABLES)}), got '{path.name}'")
    if path.is_dir():
        return FolderReader(path, labelled=labelled)
    if suffix in _TABLES:
        return _TABLES[suffix](path, columns, labelled=labelled)
    if suffix in _ARRAYS:
        raise InputError(f"arrays are read whole, by `read_arrays`, got '{path.name}'")
    known = ", ".join([*_TABLES, *_ARRAYS])
    raise InputError(f"data must be a folder of images or a file of {known}, got '{path.name}'")
