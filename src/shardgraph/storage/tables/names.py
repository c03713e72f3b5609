"""Finding samples, sources, subjects and labels by the beginning of their name."""

from collections.abc import Sequence

from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables.inventory import Column, Row

_ROW = "id, label, source, subject, split, unit"
_COLUMNS = ("id", "label", "source", "subject", "unit")
_LAST = "\U0010ffff"  # sorts after every other character


def samples_beginning(
    catalogue: Catalogue, beginning: str, sources: Sequence[str] | None = None, most: int = 50
) -> list[Row]:
    """The samples whose id begins with `beginning`, ordered by id; with `sources`, only theirs."""
    where, values = _beginning("id", beginning, sources)
    return [Row(*row) for row in catalogue.all(f"SELECT {_ROW} {where} ORDER BY id LIMIT ?", *values, most)]


def names_beginning(
    catalogue: Catalogue, column: Column, beginning: str, sources: Sequence[str] | None = None, most: int = 50
) -> dict[str, int]:
    """The names in this column that begin with `beginning`, with their number of samples, of `sources` if given."""
    where, values = _beginning(column, beginning, sources)
    sql = f"SELECT {column}, count(*) {where} AND {column} <> '' GROUP BY {column} ORDER BY {column} LIMIT ?"
    return dict(catalogue.all(sql, *values, most))


def _beginning(column: str, beginning: str, sources: Sequence[str] | None) -> tuple[str, tuple[str, ...]]:
    assert column in _COLUMNS
    among = f" AND source IN ({','.join('?' * len(sources))})" if sources is not None else ""
    where = f"FROM samples WHERE {column} >= ? AND {column} < ?{among}"
    return where, (beginning, beginning + _LAST, *(sources or ()))
