"""Readers by path or URL: the kind of a file is recognised by its suffix."""

from pathlib import Path

from shardgraph.embedding.readers.columns import Columns
from shardgraph.embedding.readers.delimited import DelimitedReader
from shardgraph.embedding.readers.folder import FolderReader
from shardgraph.embedding.readers.jsonl import JsonLinesReader
from shardgraph.embedding.readers.parquet import ParquetReader
from shardgraph.embedding.remote import Place, place_of
from shardgraph.errors import InputError

AnyTable = ParquetReader | DelimitedReader | JsonLinesReader
AnyReader = FolderReader | AnyTable

_TABLES: dict[str, type[AnyTable]] = {
    ".parquet": ParquetReader,
    ".csv": DelimitedReader,
    ".tsv": DelimitedReader,
    ".jsonl": JsonLinesReader,
    ".ndjson": JsonLinesReader,
}
ARRAYS = (".npz", ".safetensors")


def read(
    path: str | Place, columns: Columns | None = None, *, labelled: bool = True, for_: str | None = None
) -> AnyReader:
    """The reader for a folder of images or a table (`columns` names its columns); arrays are read by `read_arrays`.

    Images and texts that are only to be predicted need not be `labelled`. If a table holds several kinds of content,
    that of the modality that it is read `for_` is taken.
    """
    place = place_of(path)
    local = isinstance(place, Path)
    if isinstance(place, Path) and not place.exists():
        raise InputError(f"a path must exist, '{place}' does not")
    suffix = place.suffix.lower()
    if columns is not None and suffix not in _TABLES:
        raise InputError(f"column names are for tables ({', '.join(_TABLES)}), got '{place.name}'")
    if place.is_dir() if isinstance(place, Path) else not suffix:
        return FolderReader(place, labelled=labelled)
    if suffix in _TABLES:
        return _TABLES[suffix](place, columns, labelled=labelled, for_=for_)
    if suffix in ARRAYS:
        raise InputError(f"arrays are read whole, by `read_arrays`, got '{place.name}'")
    known = ", ".join([*_TABLES, *ARRAYS])
    hint = "" if local else "; the URL of a folder ends with a slash"
    raise InputError(f"data must be a folder of images or a file of {known}, got '{place.name}'{hint}")
