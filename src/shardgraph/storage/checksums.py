"""Checksums of the catalogue's content: what rots on the disk is found.

The table `checks` holds a sum of the hashes of all rows, by table and part. Triggers collect the rows that a
transaction adds and removes, and the sums are updated in the same transaction, so a check can tell whether a part of a
table is what was written. A sum depends on the present rows alone. It finds accidents; a person who can write to the
file can change the sums, too.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from shardgraph.errors import DamagedFile

FIRST_LAYOUT = 3  # the migration that made `checks`
_Row = tuple[Any, ...]
_Run = Callable[[Callable[[], list[_Row]]], list[_Row]]
_Sums = dict[tuple[str, str, str], tuple[int, int]]  # (table, part, label) -> number of rows, sum of their hashes
_MODULUS = 1 << 128
_SEQUENCE, _SCHEMA, _CHECKS = "sqlite_sequence", "sqlite_master", "checks"  # checked, too, without triggers
# Large tables are summed by part, so that one part can be checked alone: the part and the label of a row, and the
# condition that selects a part.
_PARTS = {
    "samples": ("hex({0}.unit)", "hex({0}.label)", "unit = ?1"),  # a name may contain the separator
    "requests": ("({0}.number / 64)", "''", "number BETWEEN ?1 * 64 AND ?1 * 64 + 63"),
    "forgotten": ("substr({0}.mark, 1, 2)", "''", "mark >= ?1 AND mark < ?1 || 'g'"),  # a mark is in hex
}
_ROW = "char(31)"  # separates the values of a row
_BATCH = 10_000  # rows that are read at once


class Checksums:
    """The checksums of one open catalogue; `run` makes the errors of SQLite clear."""

    def __init__(self, path: Path, connection: sqlite3.Connection, run: _Run) -> None:
        self._path, self._db, self._run = path, connection, run
        self._notes: list[str] = []  # the rows that the transaction under way has added and removed
        self._written: _Sums = {}  # the same as sums
        self.installed = False

    def check(self, table: str, parts: Collection[str] | None = None) -> int:
        """Raise `DamagedFile` unless the rows of a table, or of these parts, are those written; returns their number.

        A part of the samples is a unit; of the requests, `request_part`; of what was forgotten, `mark_part`.
        """
        saved, found = self._saved(table), self._sums(table, parts)
        if found != {key: sums for key, sums in saved.items() if parts is None or key[1] in parts}:
            raise self._damaged(f"the rows of {table} are not those that were written")
        return sum(rows for rows, _ in found.values())

    def check_all(self) -> int:
        """Check all tables, the layout and the indexes; returns the number of rows."""
        if (found := self._all("PRAGMA integrity_check(1)")) != [("ok",)]:
            raise self._damaged(str(found[0][0]))
        return sum(map(self.check, (*self._tables(), _SEQUENCE, _SCHEMA)))

    def parts(self, table: str) -> dict[tuple[str, str], int]:
        """The number of rows of every part of a table, in order; of the samples, by unit and label."""
        if self._db.in_transaction:
            self.save()
        sql = "SELECT part, label, rows FROM checks WHERE name = ? ORDER BY part, label"
        return {(part, label): rows for part, label, rows in self._all(sql, table)}

    def install(self) -> None:
        """Install triggers that collect every row written or deleted; they exist in this connection alone."""
        self._db.execute("PRAGMA recursive_triggers = ON")  # so that REPLACE fires those of DELETE
        self._db.create_function("note", 1, self._notes.append)  # no Python code: Ctrl-C must not end up in SQLite
        for table in self._tables():
            old, new = (f"note('{sign}' || {self._text(table, row)})" for sign, row in (("-", "OLD"), ("+", "NEW")))
            for event, row, notes in (
                ("INSERT", "NEW", new),
                ("DELETE", "OLD", old),
                ("UPDATE", "NEW", f"{old}, {new}"),
            ):
                when = f"WHEN {row}.name <> '{_CHECKS}'" if table == _CHECKS else ""
                head = f"CREATE TEMP TRIGGER IF NOT EXISTS note_{event}_{table} AFTER {event} ON main.{table} {when}"
                self._db.execute(f"{head} BEGIN SELECT {notes}; END")
        self.installed = True

    def discard(self) -> None:
        """Drop what was collected: its transaction was rolled back."""
        self._notes.clear()
        self._written.clear()

    def collect(self) -> None:
        """Sum what the triggers have collected so far; rows need memory, sums do not."""
        notes, self._notes[:] = self._notes[:], []
        for note in notes:
            _add(self._written, note[1:], 1 if note[0] == "+" else -1)

    def save(self) -> None:
        """Add what the transaction under way has changed so far to the sums, then to the sum of the sums."""
        self.collect()
        if not self._written:
            return
        self._add_written()
        self._save((_SEQUENCE, "", ""), self._sums(_SEQUENCE).get((_SEQUENCE, "", ""), (0, 0)))
        self.collect()
        self._add_written()

    def _add_written(self) -> None:
        written, self._written = self._written, {}
        for key, (rows, value) in written.items():
            before = self._one("SELECT rows, value FROM checks WHERE (name, part, label) = (?, ?, ?)", *key)
            held = (before[0], int(before[1], 16)) if before else (0, 0)
            self._save(key, (held[0] + rows, (held[1] + value) % _MODULUS))

    def _save(self, key: tuple[str, str, str], sums: tuple[int, int]) -> None:
        if any(sums):
            values = (*key, sums[0], f"{sums[1]:032x}")
            self._db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?)", values)
        else:  # what is gone leaves no name behind
            self._db.execute("DELETE FROM checks WHERE (name, part, label) = (?, ?, ?)", key)

    def recount(self) -> None:
        """Make all sums anew, from what the tables hold."""
        self.install()
        self._db.execute("DELETE FROM checks")
        self._notes.clear()
        for table in (*self._tables(), _SCHEMA):
            self._written |= self._sums(table)
        self.save()

    def _saved(self, table: str) -> _Sums:
        found = self._all("SELECT name, part, label, rows, value FROM checks WHERE name = ?", table)
        try:
            return {(name, part, label): (rows, int(value, 16)) for name, part, label, rows, value in found}
        except (TypeError, ValueError):
            raise self._damaged("its checksums are not those that were written") from None

    def _sums(self, table: str, parts: Collection[str] | None = None) -> _Sums:
        """The sums of a table, read without its indexes, or those of some parts."""
        sql, found = f"SELECT {self._text(table, table)} FROM {table}", dict[tuple[str, str, str], tuple[int, int]]()
        how = self._unindexed(table) if parts is None else f" WHERE {_PARTS[table][2]}"
        how += f" WHERE name <> '{_CHECKS}'" if table == _CHECKS else ""
        for values in [()] if parts is None else [(part,) for part in parts]:
            for text in self._texts(sql + how, values):
                _add(found, text, 1)
        return {key: (rows, value % _MODULUS) for key, (rows, value) in found.items()}

    def _text(self, table: str, row: str) -> str:
        """SQL for a row as text: its table, part and label, and every value with its type."""
        columns = [(name, kind) for _, name, kind, *_ in self._all(f"PRAGMA table_info({table})") if name != "rootpage"]
        # the text of a float depends on SQLite's version, its multiple by 2^60 as an integer does not
        texts = [f"CAST({row}.{name} * 1152921504606846976.0 AS INTEGER)" if kind == "REAL" else f"{row}.{name}"
                 for name, kind in columns]  # fmt: skip
        values = [f"coalesce(substr(typeof({text}), 1, 1) || {text}, '')" for text in texts]
        part, label, _ = _PARTS.get(table, ("''", "''", ""))
        return f" || {_ROW} || ".join([f"'{table}'", part.format(row), label.format(row), *values])

    def _unindexed(self, table: str) -> str:
        """SQL that makes a query read the table itself; SQLite ignores NOT INDEXED for tables WITHOUT ROWID."""
        found = self._one("SELECT sql FROM sqlite_master WHERE name = ?", table)
        without = found is not None and "WITHOUT ROWID" in str(found[0])
        return f" INDEXED BY sqlite_autoindex_{table}_1" if without else " NOT INDEXED"

    def _tables(self) -> list[str]:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return [name for (name,) in self._all(sql)]

    def _damaged(self, what: str) -> DamagedFile:
        advice = "check the disk and try again; if the error stays, restore the workspace from a backup"
        return DamagedFile(f"{self._path} is damaged: {what}; {advice}")

    def _all(self, sql: str, *values: object) -> list[_Row]:
        return self._run(lambda: self._db.execute(sql, values).fetchall())

    def _one(self, sql: str, *values: object) -> _Row | None:
        return next(iter(self._all(sql, *values)), None)

    def _texts(self, sql: str, values: tuple[object, ...]) -> Iterator[str]:
        cursor = self._db.cursor()
        rows = self._run(lambda: cursor.execute(sql, values).fetchmany(_BATCH))
        while rows:
            yield from (text for (text,) in rows)
            rows = self._run(lambda: cursor.fetchmany(_BATCH))


def request_part(number: int) -> str:
    """The part of a request, for `Checksums.check`."""
    return str(number // 64)


def mark_part(mark: str) -> str:
    """The part of a mark of the table of what was forgotten, for `Checksums.check`."""
    return mark[:2]


def _add(sums: _Sums, row: str, sign: int) -> None:
    """Add a row's hash to the sum of its part, or subtract it."""
    table, part, label, _ = row.split("\x1f", 3)
    if table == "samples":
        part, label = bytes.fromhex(part).decode(), bytes.fromhex(label).decode()
    rows, value = sums.get((table, part, label), (0, 0))
    number = int.from_bytes(blake2b(row.encode(), digest_size=16).digest())
    sums[table, part, label] = (rows + sign, value + sign * number)
