"""Search: samples, subjects and sources by the beginning of their name."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardgraph.errors import InputError
from shardgraph.forget.erase.plan import forgotten_before
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables.inventory import Column
from shardgraph.storage.tables.names import names_beginning, samples_beginning

SEARCHABLE: dict[str, Column] = {"sample": "id", "subject": "subject", "source": "source"}


@dataclass(frozen=True)
class Found:
    """A sample with its label and source, or a subject or source with its number of samples."""

    name: str
    samples: int
    label: str = ""
    source: str = ""


def find_names(
    catalogue: Catalogue, kind: str, beginning: str, sources: Sequence[str] | None = None, most: int = 50
) -> list[Found]:
    """Those whose name begins with `beginning`, sorted by name; with `sources`, only those with samples there."""
    if kind not in SEARCHABLE:
        raise InputError(f"kind must be one of {', '.join(SEARCHABLE)}, got {kind!r}")
    if not beginning:
        raise InputError("a search must give the beginning of a name, got an empty one")
    if kind == "sample":
        rows = samples_beginning(catalogue, beginning, sources, most)
        return [Found(row.id, 1, row.label, row.source) for row in rows]
    names = names_beginning(catalogue, SEARCHABLE[kind], beginning, sources, most)
    return [Found(name, samples) for name, samples in names.items()]


def forgotten_as(catalogue: Catalogue, keys: Keys, kind: str, name: str) -> int | None:
    """The number of the certificate under which exactly this name was forgotten; None if it was not."""
    named = (f"{kind}s", name)
    return forgotten_before(catalogue, keys, [named]).get(named)
