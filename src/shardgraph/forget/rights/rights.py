"""Rights: which part of the data a consumer may use, and their rows in the catalogue.

A right names sources and shards. It allows every training sample of those sources, and every one in those shards, also
those that come later. Nobody's right is part of the configuration: it can be given and taken at any time.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from shardgraph.errors import InputError, UnknownConsumer, check_list, some
from shardgraph.storage.database import Catalogue, Row
from shardgraph.storage.store import shard_unit

SOURCE, SHARD = "source", "shard"


@dataclass(frozen=True)
class Right:
    """What one consumer may use; `provision` says whether groups of that part alone are kept for it."""

    consumer: str
    sources: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    provision: bool = False

    def allows(self, unit: str, source: str) -> bool:
        """Whether a training sample of this source, in this file, may be used."""
        return source in self.sources or unit.removeprefix("shard:") in self.shards

    def plus(self, sources: Iterable[str], shards: Iterable[str]) -> "Right":
        """With these, too."""
        _check_lists(sources, shards)
        more = {"sources": {*self.sources, *sources}, "shards": {*self.shards, *shards}}
        return replace(self, **{kind: tuple(sorted(names)) for kind, names in more.items()})  # type: ignore[arg-type]

    def minus(self, sources: Iterable[str], shards: Iterable[str]) -> "Right":
        """Without these."""
        _check_lists(sources, shards)
        less = {"sources": {*self.sources} - {*sources}, "shards": {*self.shards} - {*shards}}
        return replace(self, **{kind: tuple(sorted(names)) for kind, names in less.items()})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The right as a plain dict."""
        return asdict(self)


def rights_by_consumer(catalogue: Catalogue) -> dict[str, Right]:
    """Every consumer's right, by name."""
    named: dict[tuple[str, str], list[str]] = {}
    for consumer, kind, name in catalogue.all("SELECT consumer, kind, name FROM rights ORDER BY consumer, kind, name"):
        named.setdefault((consumer, kind), []).append(name)
    return {
        name: Right(name, tuple(named.get((name, SOURCE), ())), tuple(named.get((name, SHARD), ())), bool(provision))
        for name, provision in catalogue.all("SELECT name, provision FROM consumers ORDER BY name")
    }


def right_of(catalogue: Catalogue, consumer: str) -> Right:
    """A consumer's right."""
    found = catalogue.one("SELECT provision FROM consumers WHERE name = ?", consumer)
    if found is None:
        raise UnknownConsumer(f"{consumer!r} has no right here; `shardgraph grant` gives one", [consumer])
    rows = catalogue.all("SELECT kind, name FROM rights WHERE consumer = ? ORDER BY name", consumer)
    sources, shards = (tuple(name for kind, name in rows if kind == which) for which in (SOURCE, SHARD))
    return Right(consumer, sources, shards, bool(found[0]))


def granted(catalogue: Catalogue, consumer: str, sources: Iterable[str], shards: Iterable[str]) -> Right:
    """What a consumer's right would be with these, too; an error if there is nothing of that name here."""
    wanted = Right(consumer).plus(sources, shards)
    if not consumer or any("\ud800" <= letter <= "\udfff" for letter in consumer):
        raise InputError(f"a consumer must have a name that is valid text, got {consumer!r}")
    if not wanted.sources and not wanted.shards:
        raise InputError(f"a grant must name at least one source or shard for {consumer!r}")
    here = {SOURCE: _sources(catalogue), SHARD: _shards(catalogue)}
    for kind, names in ((SOURCE, wanted.sources), (SHARD, wanted.shards)):
        if unknown := [name for name in names if name not in here[kind]]:
            raise InputError(f"a {kind} must have samples here, got {some(unknown)}; add and train them first", unknown)
    old = rights_by_consumer(catalogue).get(consumer, Right(consumer))
    return old.plus(wanted.sources, wanted.shards)


def revoked(catalogue: Catalogue, consumer: str, sources: Iterable[str], shards: Iterable[str]) -> Right:
    """What a consumer's right would be without these, or without anything if none are named."""
    _check_lists(sources, shards)
    old, sources, shards = right_of(catalogue, consumer), tuple(sources), tuple(shards)
    if not sources and not shards:
        return Right(consumer)
    for kind, names, held in ((SOURCE, sources, old.sources), (SHARD, shards, old.shards)):
        if unknown := sorted(set(names) - set(held)):
            raise InputError(
                f"{consumer!r} has no right over {kind} {some(unknown)}; it has {some(held) or 'none'}", unknown
            )
    return old.minus(sources, shards)


def write_right(db: sqlite3.Connection, right: Right) -> None:
    """Make the rows those of this right; a consumer without any is not kept."""
    db.execute("DELETE FROM rights WHERE consumer = ?", (right.consumer,))
    if not right.sources and not right.shards:
        db.execute("DELETE FROM consumers WHERE name = ?", (right.consumer,))
        return
    db.execute("INSERT OR REPLACE INTO consumers VALUES (?, ?)", (right.consumer, int(right.provision)))
    rows = [(right.consumer, SOURCE, name) for name in right.sources]
    rows += [(right.consumer, SHARD, name) for name in right.shards]
    db.executemany("INSERT INTO rights VALUES (?, ?, ?)", rows)


def forget_rights(db: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Within a forget: drop what rights say of sources and shards that lose their last sample with these."""
    named = "DELETE FROM rights WHERE kind = ? AND name = ? AND NOT EXISTS (SELECT 1 FROM samples WHERE {} = ?)"
    rows = list(rows)
    db.executemany(named.format("source"), sorted({(SOURCE, row.source, row.source) for row in rows}))
    shards = {(SHARD, row.unit.removeprefix("shard:"), row.unit) for row in rows if row.unit.startswith("shard:")}
    db.executemany(named.format("unit"), sorted(shards))


def _check_lists(sources: Iterable[str], shards: Iterable[str]) -> None:
    check_list(sources, "the sources of a right")
    check_list(shards, "the shards of a right")


def _sources(catalogue: Catalogue) -> set[str]:
    return {name for (name,) in catalogue.all("SELECT DISTINCT source FROM samples WHERE source <> ''")}


def _shards(catalogue: Catalogue) -> set[str]:
    units = catalogue.all("SELECT DISTINCT unit FROM samples")
    return {unit.removeprefix("shard:") for (unit,) in units if unit == shard_unit(unit.removeprefix("shard:"))}
