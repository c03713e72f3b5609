"""What the workspace holds: samples, the files that hold them (units), and which adapters and prototypes are built.

A unit is a chunk of the inbox ("inbox:3"), a shard ("shard:c0-f1") or a bucket of held-out samples ("test:7").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

from shardgraph.storage.catalogue import Catalogue, Transaction

Column = Literal["id", "label", "source", "subject", "unit", "content"]
"""The columns by which samples can be found and counted."""

_ROW = "id, label, source, subject, split, unit"
_COLUMNS = ("id", "label", "source", "subject", "unit", "content")
_PROTOTYPES, _GROUP = "prototypes", "group:"  # names of rows in `built`; a group's name has the prefix
_SCAN = " INDEXED BY sqlite_autoindex_samples_1"  # the table itself; SQLite ignores NOT INDEXED WITHOUT ROWID


@dataclass(frozen=True)
class Row:
    """One sample as the catalogue lists it; `unit` is the unit that holds it."""

    id: str
    label: str
    source: str
    subject: str
    split: str
    unit: str


@dataclass(frozen=True)
class Unit:
    """A file of samples; while it is `dirty`, the file may be the old one or the new one."""

    digest: str
    dirty: bool


@dataclass(frozen=True)
class Built:
    """Built adapters of a group, or built prototypes: the key of their inputs, and the digest of their file."""

    key: str
    digest: str
    samples: int
    adapters: int


# Samples


def find_by(catalogue: Catalogue, column: Column, names: Sequence[str], *, scan: bool = False) -> list[Row]:
    """The samples that have one of `names` in this column, ordered by id; with `scan`, no index is used."""
    sql = f"SELECT {_ROW} FROM samples{_SCAN if scan else ''} WHERE {_checked(column)} {{}}"
    return sorted((Row(*row) for row in catalogue.among(sql, names)), key=lambda row: row.id.encode())


def find_within(catalogue: Catalogue, column: Column, names: Sequence[str], sources: Sequence[str]) -> list[Row]:
    """Those of `find_by` that are samples of these sources, found without an index.

    The time depends on how many samples there are, and not on what other sources hold.
    """
    among = f"source IN ({','.join('?' * len(sources))})"
    sql = f"SELECT {_ROW} FROM samples{_SCAN} WHERE {_checked(column)} {{}} AND {among}"
    return sorted((Row(*row) for row in catalogue.among(sql, names, *sources)), key=lambda row: row.id.encode())


def find_by_id(catalogue: Catalogue, ids: Iterable[str]) -> list[Row]:
    """Those of the samples that the workspace holds, ordered by id."""
    return find_by(catalogue, "id", list(ids))


def find_in_unit(catalogue: Catalogue, unit: str) -> list[Row]:
    """The samples in a unit, ordered by id."""
    return find_by(catalogue, "unit", [unit])


def known_ids(catalogue: Catalogue, ids: Iterable[str]) -> set[str]:
    """Those of the ids that the workspace holds."""
    return {row.id for row in find_by_id(catalogue, ids)}


def all_names(catalogue: Catalogue, column: Column) -> list[str]:
    """All different values in this column, read without an index."""
    return [name for (name,) in catalogue.all(f"SELECT DISTINCT {_checked(column)} FROM samples{_SCAN}")]


def all_ids(catalogue: Catalogue) -> list[str]:
    """The ids of all samples, in order."""
    return [sample for (sample,) in catalogue.all("SELECT id FROM samples ORDER BY id")]


def held_out_ids(catalogue: Catalogue, most: int) -> list[str]:
    """The first ids of held-out samples that have been placed."""
    return [i for (i,) in catalogue.all("SELECT id FROM samples WHERE unit LIKE 'test:%' ORDER BY id LIMIT ?", most)]


def waiting_rows(catalogue: Catalogue) -> list[Row]:
    """The samples in the inbox."""
    return [Row(*row) for row in catalogue.all(f"SELECT {_ROW} FROM samples WHERE unit LIKE 'inbox:%'")]


def unassigned_rows(catalogue: Catalogue) -> list[Row]:
    """The samples in the inbox that have no target yet."""
    sql = f"SELECT {_ROW} FROM samples WHERE unit LIKE 'inbox:%' AND target IS NULL"
    return [Row(*row) for row in catalogue.all(sql)]


def placed_rows(catalogue: Catalogue) -> list[Row]:
    """The samples that have left the inbox."""
    return [Row(*row) for row in catalogue.all(f"SELECT {_ROW} FROM samples WHERE unit NOT LIKE 'inbox:%'")]


def count_samples(catalogue: Catalogue) -> int:
    """How many samples there are."""
    return _count(catalogue, "1")


def count_waiting(catalogue: Catalogue) -> int:
    """How many samples are in the inbox."""
    return _count(catalogue, "unit LIKE 'inbox:%'")


def count_in_shards(catalogue: Catalogue) -> int:
    """How many samples are in shards."""
    return _count(catalogue, "unit LIKE 'shard:%'")


def count_held_out(catalogue: Catalogue) -> int:
    """How many held-out samples have been placed."""
    return _count(catalogue, "unit LIKE 'test:%'")


def count_by_split(catalogue: Catalogue) -> dict[str, int]:
    """How many samples every split has; both splits are listed."""
    found = dict(catalogue.all("SELECT split, count(*) FROM samples GROUP BY split"))
    return {split: found.get(split, 0) for split in ("train", "test")}


def count_by(catalogue: Catalogue, column: Column, names: Sequence[str]) -> dict[str, int]:
    """How many samples have each of `names` in this column; names without samples are left out."""
    name = _checked(column)
    sql = f"SELECT {name}, count(*) FROM samples WHERE {name} {{}} GROUP BY {name}"
    return dict(catalogue.among(sql, names))


def count_training_by_source(catalogue: Catalogue, sources: Sequence[str]) -> dict[str, int]:
    """How many training samples each of these sources has; sources without any are left out."""
    sql = "SELECT source, count(*) FROM samples WHERE source {} AND split = 'train' GROUP BY source"
    return dict(catalogue.among(sql, sources))


def count_by_source(catalogue: Catalogue) -> dict[str, int]:
    """How many samples every named source has."""
    return dict(catalogue.all("SELECT source, count(*) FROM samples WHERE source <> '' GROUP BY source"))


def training_labels(catalogue: Catalogue) -> list[str]:
    """The labels of the training samples."""
    return [label for (label,) in catalogue.all("SELECT DISTINCT label FROM samples WHERE split = 'train'")]


def shard_contents(catalogue: Catalogue) -> list[tuple[str, str, str, int]]:
    """How many samples every shard holds of every source and label: (unit, source, label, count)."""
    sql = "SELECT unit, source, label, count(*) FROM samples WHERE unit LIKE 'shard:%' GROUP BY unit, source, label"
    return [(unit, source, label, count) for unit, source, label, count in catalogue.all(sql)]


def shard_sources(catalogue: Catalogue) -> dict[str, dict[str, int]]:
    """By the unit of every shard: how many of its samples each source gave."""
    found: dict[str, dict[str, int]] = {}
    sql = "SELECT unit, source, count(*) FROM samples WHERE unit LIKE 'shard:%' GROUP BY unit, source"
    for unit, source, count in catalogue.all(sql):
        found.setdefault(unit, {})[source] = count
    return found


def unit_sources(catalogue: Catalogue, unit: str) -> dict[str, int]:
    """How many of a unit's samples each source gave."""
    return dict(catalogue.all("SELECT source, count(*) FROM samples WHERE unit = ? GROUP BY source", unit))


def unit_labels(catalogue: Catalogue) -> dict[str, dict[str, int]]:
    """By unit: how many of its samples have each label."""
    counts: dict[str, dict[str, int]] = {}
    for (unit, label), count in catalogue.parts("samples").items():
        if count:
            counts.setdefault(unit, {})[label] = count
    return counts


def occupied_units(catalogue: Catalogue) -> list[str]:
    """The units that hold samples."""
    return [unit for (unit,) in catalogue.all("SELECT DISTINCT unit FROM samples ORDER BY unit")]


def add_samples(transaction: Transaction, rows: Iterable[Row], contents: Iterable[str] = ()) -> None:
    """Add samples, with the keyed hashes of their content in the same order, if they are known."""
    hashes: Iterable[str | None] = contents or repeat(None)
    transaction.executemany(
        f"INSERT INTO samples ({_ROW}, content) VALUES (?,?,?,?,?,?,?)",
        (
            (row.id, row.label, row.source, row.subject, row.split, row.unit, content)
            for row, content in zip(rows, hashes, strict=False)
        ),
    )


def remove_samples(transaction: Transaction, ids: Iterable[str]) -> None:
    """Remove samples."""
    transaction.executemany("DELETE FROM samples WHERE id = ?", [(sample,) for sample in ids])


# The content of samples, as keyed hashes


def contents_of(catalogue: Catalogue, ids: Sequence[str]) -> dict[str, str | None]:
    """The hash of the content of these samples; None for those whose content was not hashed yet."""
    return dict(catalogue.among("SELECT id, content FROM samples WHERE id {}", ids))


def unhashed_units(catalogue: Catalogue) -> list[str]:
    """The units that hold samples whose content was not hashed yet: an earlier version added them."""
    return [unit for (unit,) in catalogue.all("SELECT DISTINCT unit FROM samples WHERE content IS NULL ORDER BY unit")]


def set_contents(transaction: Transaction, contents: Mapping[str, str]) -> None:
    """Set the hash of the content of samples, by id."""
    pairs = [(content, sample) for sample, content in contents.items()]
    transaction.executemany("UPDATE samples SET content = ? WHERE id = ?", pairs)


# Moves from the inbox to the other units


def is_placing(catalogue: Catalogue) -> bool:
    """Whether a sample has a target that it has not been moved to yet."""
    return catalogue.one("SELECT 1 FROM samples WHERE target IS NOT NULL LIMIT 1") is not None


def targets(catalogue: Catalogue) -> list[str]:
    """The units that samples are to be moved to."""
    sql = "SELECT DISTINCT target FROM samples WHERE target IS NOT NULL ORDER BY target"
    return [unit for (unit,) in catalogue.all(sql)]


def origins(catalogue: Catalogue) -> list[str]:
    """The units that samples are to be moved from."""
    return [unit for (unit,) in catalogue.all("SELECT DISTINCT unit FROM samples WHERE target IS NOT NULL")]


def arriving(catalogue: Catalogue, target: str) -> dict[str, str]:
    """The samples that are to be moved to a unit, each with the unit that holds it now."""
    return dict(catalogue.all("SELECT id, unit FROM samples WHERE target = ?", target))


def set_targets(transaction: Transaction, places: Mapping[str, str]) -> None:
    """Set the unit that each waiting sample belongs in, by id; the units become dirty."""
    units = [(unit,) for unit in sorted(set(places.values()))]
    moves = [(unit, sample) for sample, unit in places.items()]
    transaction.executemany("UPDATE samples SET target = ? WHERE id = ?", moves)
    transaction.executemany("INSERT OR IGNORE INTO units (name, digest) VALUES (?, '')", units)
    transaction.executemany("UPDATE units SET dirty = 1 WHERE name = ?", units)


def clear_targets(transaction: Transaction) -> None:
    """Clear all targets, and delete the units that were never written."""
    transaction.execute("UPDATE samples SET target = NULL WHERE target IS NOT NULL")
    transaction.execute("DELETE FROM units WHERE digest = ''")


# Units


def find_unit(catalogue: Catalogue, unit: str) -> Unit | None:
    """A unit; None if the catalogue does not list it."""
    row = catalogue.one("SELECT digest, dirty FROM units WHERE name = ?", unit)
    return Unit(row[0], bool(row[1])) if row else None


def unit_digests(catalogue: Catalogue) -> dict[str, str]:
    """The digest of every unit."""
    return dict(catalogue.all("SELECT name, digest FROM units"))


def any_unit_dirty(catalogue: Catalogue) -> bool:
    """Whether a unit is being rewritten."""
    return catalogue.one("SELECT 1 FROM units WHERE dirty = 1") is not None


def empty_inbox_units(catalogue: Catalogue) -> list[str]:
    """The units of the inbox that hold no samples."""
    sql = "SELECT name FROM units WHERE name LIKE 'inbox:%' AND name NOT IN (SELECT unit FROM samples)"
    return [unit for (unit,) in catalogue.all(sql)]


def last_inbox_number(catalogue: Catalogue) -> int:
    """The highest number of a unit of the inbox; 0 if there is none."""
    row = catalogue.one("SELECT max(CAST(substr(name, 7) AS INTEGER)) FROM units WHERE name LIKE 'inbox:%'")
    return (row[0] or 0) if row else 0


def add_units(transaction: Transaction, units: Iterable[str]) -> None:
    """Add units whose files are about to be written."""
    sql = "INSERT INTO units (name, digest, dirty) VALUES (?, '', 1)"
    transaction.executemany(sql, [(unit,) for unit in units])


def mark_units_dirty(transaction: Transaction, units: Iterable[str]) -> None:
    """Mark units that are about to be rewritten as dirty."""
    transaction.executemany("UPDATE units SET dirty = 1 WHERE name = ?", [(unit,) for unit in sorted(set(units))])


def record_units(transaction: Transaction, digests: Mapping[str, str]) -> None:
    """Record that these units are written, and that samples with one of them as a target have arrived there."""
    for unit, digest in digests.items():
        transaction.execute("INSERT OR REPLACE INTO units (name, digest) VALUES (?, ?)", (unit, digest))
        transaction.execute("UPDATE samples SET unit = target, target = NULL WHERE target = ?", (unit,))


def remove_unit(transaction: Transaction, unit: str) -> None:
    """Remove a unit whose file was destroyed."""
    transaction.execute("DELETE FROM units WHERE name = ?", (unit,))


# What is built


def built_groups(catalogue: Catalogue) -> dict[str, Built]:
    """The groups whose adapters are built, by name in order."""
    sql = "SELECT name, key, digest, samples, adapters FROM built WHERE name LIKE 'group:%' ORDER BY name"
    return {name.removeprefix(_GROUP): Built(*rest) for name, *rest in catalogue.all(sql)}


def built_prototypes(catalogue: Catalogue) -> Built | None:
    """The prototypes, if they are built."""
    row = catalogue.one("SELECT key, digest, samples, adapters FROM built WHERE name = ?", _PROTOTYPES)
    return Built(*row) if row else None


def is_group_built(catalogue: Catalogue, name: str) -> bool:
    """Whether a group is listed as built."""
    return catalogue.one("SELECT 1 FROM built WHERE name = ?", _GROUP + name) is not None


def is_provisioning(catalogue: Catalogue) -> bool:
    """Whether groups are kept for a consumer."""
    return catalogue.one("SELECT 1 FROM consumers WHERE provision = 1") is not None


def record_group(transaction: Transaction, name: str, built: Built) -> None:
    """Record that a group is built."""
    _record(transaction, _GROUP + name, built)


def record_prototypes(transaction: Transaction, built: Built) -> None:
    """Record that the prototypes are built."""
    _record(transaction, _PROTOTYPES, built)


def set_prototypes_key(transaction: Transaction, key: str) -> None:
    """Change the key of the prototypes; with "" they count as not built."""
    transaction.execute("UPDATE built SET key = ? WHERE name = ?", (key, _PROTOTYPES))


def clear_built_keys(transaction: Transaction) -> None:
    """Mark all groups, including those of rights, and the prototypes as not built."""
    transaction.execute("UPDATE built SET key = ''")
    transaction.execute("UPDATE provisioned SET key = ''")


def remove_groups(transaction: Transaction, names: Iterable[str]) -> None:
    """Delete the rows of built groups."""
    transaction.executemany("DELETE FROM built WHERE name = ?", [(_GROUP + name,) for name in names])


def _record(transaction: Transaction, name: str, built: Built) -> None:
    row = (name, built.key, built.digest, built.samples, built.adapters)
    transaction.execute("INSERT OR REPLACE INTO built VALUES (?, ?, ?, ?, ?)", row)


def _count(catalogue: Catalogue, condition: str) -> int:
    row = catalogue.one(f"SELECT count(*) FROM samples WHERE {condition}")
    return row[0] if row else 0


def _checked(column: str) -> str:
    assert column in _COLUMNS
    return column
