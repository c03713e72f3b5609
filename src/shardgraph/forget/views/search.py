"""Finding what somebody means: samples, subjects and sources by the beginning of their name."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardgraph.errors import InputError
from shardgraph.forget.proof.keys import Secrets
from shardgraph.storage.database import Catalogue

COLUMNS = {"sample": "id", "subject": "subject", "source": "source"}
_LAST = "\U0010ffff"  # sorts after every other letter


@dataclass(frozen=True)
class Found:
    """A sample, or a subject or source with so many samples; a sample has a label and a source."""

    name: str
    samples: int
    label: str = ""
    source: str = ""


def find(
    catalogue: Catalogue, kind: str, beginning: str, sources: Sequence[str] | None = None, most: int = 50
) -> list[Found]:
    """Those whose name begins so, by name; with `sources`, only what has samples there."""
    if kind not in COLUMNS:
        raise InputError(f"one can look for {', '.join(COLUMNS)}, got {kind!r}")
    if not beginning:
        raise InputError("say how the name begins")
    column, marks = COLUMNS[kind], ",".join("?" * len(sources or ()))
    among = f" AND source IN ({marks})" if sources is not None else ""
    values = (beginning, beginning + _LAST, *(sources or ()), most)
    where = f"FROM samples WHERE {column} >= ? AND {column} < ?{among}"
    if kind == "sample":
        rows = catalogue.all(f"SELECT id, 1, label, source {where} ORDER BY id LIMIT ?", *values)
    else:
        sql = f"SELECT {column}, count(*) {where} AND {column} <> '' GROUP BY {column} ORDER BY {column} LIMIT ?"
        rows = catalogue.all(sql, *values)
    return [Found(*row) for row in rows]


def forgotten_as(catalogue: Catalogue, secrets: Secrets, kind: str, name: str) -> int | None:
    """The certificate that says that this very name was forgotten, if there is one."""
    row = catalogue.one("SELECT certificate FROM forgotten WHERE mark = ?", secrets.mark(f"{kind}s", name))
    return row[0] if row else None
