"""The catalogue: a SQLite database of what the workspace holds, what is built, and what was requested.

Its content is reproducible; the bytes of its file are not, because the order of SQLite's pages depends on history.
Deleted rows are overwritten (`secure_delete`). SQLite also leaves copies of rows behind when it moves them between
pages. `Catalogue.scrub` empties the write-ahead log and removes such copies; it must succeed before a sample is
reported as erased.

What rots is found: the table `checks` holds a sum of the hashes of all rows, by table and part. Triggers update it in
the transaction that changes the rows, so `check` can tell whether a part of a table is what was written. A sum
depends on the present rows alone. It finds accidents; a person who can write the file can change the sums, too.

Only this module, `storage.tables` and `storage.migrations` contain SQL. Other packages call the functions of
`storage.tables`.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from shardgraph.errors import DamagedFile, WorkspaceBusy, WorkspaceError
from shardgraph.storage import migrations
from shardgraph.storage.files import check_room, retry_while_busy

_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "busy_timeout=10000", "temp_store=MEMORY")
_OPENING = 10.0  # seconds to wait for a process that creates or migrates the same file
ROOM = 1 << 20  # bytes of free disk space that SQLite needs at least
FEW = 8  # up to so many names are searched for one by one; for more, rewriting the file is faster
_PART = 500  # values in one `IN (...)`

_BATCH = 10_000  # rows that are written between two looks at what the triggers collected

_Sums = dict[tuple[str, str, str], tuple[int, int]]  # (table, part, label) -> number of rows, sum of their hashes
_MODULUS = 1 << 128
_CHECKED_FROM = 3  # the migration that made `checks`
_SEQUENCE, _SCHEMA, _CHECKS = "sqlite_sequence", "sqlite_master", "checks"  # checked, too, without triggers
# Large tables are summed by part, so that one part can be checked alone: the part and the label of a row, and the
# condition that selects a part.
_PARTS = {
    "samples": ("{0}.unit", "{0}.label", "unit = ?1"),
    "requests": ("({0}.number / 64)", "''", "number BETWEEN ?1 * 64 AND ?1 * 64 + 63"),
    "forgotten": ("substr({0}.mark, 1, 2)", "''", "mark >= ?1 AND mark < ?1 || 'g'"),  # a mark is in hex
}
_ROW = "char(31)"  # separates the values of a row


class Transaction:
    """Writes that are committed together; `Catalogue.transaction` makes one."""

    def __init__(self, connection: sqlite3.Connection, added: Callable[[], None]) -> None:
        self._connection, self._added = connection, added

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute one statement."""
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute one statement for every row of values."""
        given = iter(rows)
        while batch := list(islice(given, _BATCH)):
            self._connection.executemany(sql, batch)
            self._added()

    def set_state(self, name: str, value: str) -> None:
        """Set a fact about the catalogue itself; `Catalogue.state` returns it."""
        self.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def mark_dirty(self) -> None:
        """Record that names are deleted in this transaction; the mark stays until `Catalogue.scrub` succeeds."""
        self.set_state("dirty", "1")


class Catalogue:
    """An open catalogue; `transaction` is the only way to write."""

    def __init__(self, path: Path) -> None:
        """Open the file, create it if it does not exist, and apply pending migrations."""
        self._path = path
        self._db = retry_while_busy(lambda: _opened(path), _OPENING)
        self._notes: list[str] = []  # the rows that the transaction under way has added and removed
        self._written: _Sums = {}  # the same as sums
        self._triggers = False
        try:
            if (layout := self._layout()) != migrations.MIGRATIONS[-1].number:
                with self._uncounted() as transaction:
                    if layout >= _CHECKED_FROM:
                        self.check_all()  # the sums are made anew below
                    migrations.apply(transaction)
                    self._recount()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise _told(path, error) from error
        except BaseException:
            self._db.close()
            raise

    def _layout(self) -> int:
        """The number of the last migration that was applied; 0 if none is recorded."""
        if self.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'") is None:
            return 0
        row = self.one("SELECT max(number) FROM migrations")
        return (row[0] or 0) if row else 0

    def close(self) -> None:
        """Close the file; the object cannot be used afterwards."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of the block's writes, or none of them."""
        if not self._triggers:
            self._count_writes()
        with self._uncounted() as transaction:
            yield transaction
            self._save_sums()

    @contextmanager
    def _uncounted(self) -> Iterator[Transaction]:
        self._forget_notes()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield Transaction(self._db, self._sum_notes)
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._forget_notes()
            if isinstance(error, sqlite3.OperationalError):
                _check_disk(self._path.parent, error)
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise WorkspaceBusy("another process writes to the catalogue; try again") from error
            if isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error):
                raise self._damaged(str(error)) from error
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All of the block's reads see one state; keep it short, because `scrub` has to wait for it."""
        self._forget_notes()
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query, within a transaction including what it has written so far."""
        return self._db.execute(sql, values).fetchall()

    def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        row: tuple[Any, ...] | None = self._db.execute(sql, values).fetchone()
        return row

    def among(self, sql: str, wanted: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """The rows of a query for any number of values; `IN (...)` replaces the braces in `sql`."""
        for start in range(0, len(wanted), _PART):
            part = wanted[start : start + _PART]
            yield from self._db.execute(sql.format(f"IN ({','.join('?' * len(part))})"), part)

    @property
    def data_version(self) -> int:
        """A number that differs from the last one read here if another connection has written in between."""
        found = self.one("PRAGMA data_version")
        return int(found[0]) if found else 0

    @property
    def dirty(self) -> bool:
        """Whether names were deleted and their copies not yet removed, because a process was interrupted."""
        return self.state("dirty") is not None

    def state(self, name: str) -> str | None:
        """A fact about the catalogue itself, such as whether it is dirty."""
        row = self.one("SELECT value FROM state WHERE name = ?", name)
        return row[0] if row else None

    def scrub(self, gone: Collection[str] | None = None) -> None:
        """Empty the write-ahead log and, if names were deleted, remove the copies that SQLite left in the file.

        The file is rewritten if it contains one of the names in `gone`, if there are many of them, or if they are
        not known.
        """
        self._empty_log()
        if not self.dirty:
            return
        if gone is None or len(gone) > FEW or self._holds(gone):
            try:
                self._db.execute("VACUUM")
            except sqlite3.OperationalError as error:
                _check_disk(self._path.parent, error)
                raise WorkspaceBusy(f"the catalogue could not be rewritten, got {error}; try again") from error
            self._empty_log()
        with self.transaction() as transaction:
            transaction.execute("DELETE FROM state WHERE name = 'dirty'")
        self._empty_log()

    # Checking the content

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
        try:
            if (found := self.all("PRAGMA integrity_check(1)")) != [("ok",)]:
                raise self._damaged(str(found[0][0]))
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        return sum(map(self.check, (*self._tables(), _SEQUENCE, _SCHEMA)))

    def parts(self, table: str) -> dict[tuple[str, str], int]:
        """The number of rows of every part of a table, in order; of the samples, by unit and label."""
        if self._db.in_transaction:
            self._save_sums()
        sql = "SELECT part, label, rows FROM checks WHERE name = ? ORDER BY part, label"
        return {(part, label): rows for part, label, rows in self.all(sql, table)}

    def _count_writes(self) -> None:
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
        self._triggers = True

    def _forget_notes(self) -> None:
        self._notes.clear()
        self._written.clear()

    def _sum_notes(self) -> None:
        notes, self._notes[:] = self._notes[:], []
        for note in notes:
            _add(self._written, note[1:], 1 if note[0] == "+" else -1)

    def _save_sums(self) -> None:
        """Add what the transaction under way has changed so far to the sums, then to the sum of the sums."""
        self._sum_notes()
        if not self._written:
            return
        self._add_sums()
        self._save((_SEQUENCE, "", ""), self._sums(_SEQUENCE).get((_SEQUENCE, "", ""), (0, 0)))
        self._sum_notes()
        self._add_sums()

    def _add_sums(self) -> None:
        written, self._written = self._written, {}
        for key, (rows, value) in written.items():
            before = self.one("SELECT rows, value FROM checks WHERE (name, part, label) = (?, ?, ?)", *key)
            held = (before[0], int(before[1], 16)) if before else (0, 0)
            self._save(key, (held[0] + rows, (held[1] + value) % _MODULUS))

    def _save(self, key: tuple[str, str, str], sums: tuple[int, int]) -> None:
        if any(sums):
            values = (*key, sums[0], f"{sums[1]:032x}")
            self._db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?)", values)
        else:  # what is gone leaves no name behind
            self._db.execute("DELETE FROM checks WHERE (name, part, label) = (?, ?, ?)", key)

    def _recount(self) -> None:
        """Make all sums anew, from what the tables hold."""
        self._count_writes()
        self._db.execute("DELETE FROM checks")
        self._notes.clear()
        for table in (*self._tables(), _SCHEMA):
            self._written |= self._sums(table)
        self._save_sums()

    def _saved(self, table: str) -> _Sums:
        found = self.all("SELECT name, part, label, rows, value FROM checks WHERE name = ?", table)
        try:
            return {(name, part, label): (rows, int(value, 16)) for name, part, label, rows, value in found}
        except (TypeError, ValueError):
            raise self._damaged("its checksums are not those that were written") from None

    def _sums(self, table: str, parts: Collection[str] | None = None) -> _Sums:
        """The sums of a table, read without its indexes, or those of some parts."""
        sql, found = f"SELECT {self._text(table, table)} FROM {table}", dict[tuple[str, str, str], tuple[int, int]]()
        how = self._unindexed(table) if parts is None else f" WHERE {_PARTS[table][2]}"
        how += f" WHERE name <> '{_CHECKS}'" if table == _CHECKS else ""
        try:
            for part in [()] if parts is None else [(part,) for part in parts]:
                for (text,) in self._db.execute(sql + how, part):
                    _add(found, text, 1)
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        return {key: (rows, value % _MODULUS) for key, (rows, value) in found.items()}

    def _text(self, table: str, row: str) -> str:
        """SQL for a row as text: its table, part and label, and every value with its type."""
        columns = [(name, kind) for _, name, kind, *_ in self.all(f"PRAGMA table_info({table})") if name != "rootpage"]
        # the text of a float depends on SQLite's version, its multiple by 2^60 as an integer does not
        texts = [f"CAST({row}.{name} * 1152921504606846976.0 AS INTEGER)" if kind == "REAL" else f"{row}.{name}"
                 for name, kind in columns]  # fmt: skip
        values = [f"coalesce(substr(typeof({text}), 1, 1) || {text}, '')" for text in texts]
        part, label, _ = _PARTS.get(table, ("''", "''", ""))
        return f" || {_ROW} || ".join([f"'{table}'", part.format(row), label.format(row), *values])

    def _unindexed(self, table: str) -> str:
        """SQL that makes a query read the table itself; SQLite ignores NOT INDEXED for tables WITHOUT ROWID."""
        found = self.one("SELECT sql FROM sqlite_master WHERE name = ?", table)
        without = found is not None and "WITHOUT ROWID" in str(found[0])
        return f" INDEXED BY sqlite_autoindex_{table}_1" if without else " NOT INDEXED"

    def _tables(self) -> list[str]:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return [name for (name,) in self.all(sql)]

    def _damaged(self, what: str) -> DamagedFile:
        return DamagedFile(f"{self._path} is damaged: {what}; restore the workspace from a backup")

    def _empty_log(self) -> None:
        busy = self.all("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        if busy:
            raise WorkspaceBusy("the catalogue's log could not be emptied: a reader holds it open; try again")

    def _holds(self, names: Collection[str]) -> bool:
        """Whether one of these names occurs anywhere in the file, also as a part of other text.

        SQLite reads the file: opening and closing it a second time would release the locks of this process.
        """
        raw = self._db.serialize()
        return any(name.encode() in raw for name in names if name)


def request_part(number: int) -> str:
    """The part of a request, for `Catalogue.check`."""
    return str(number // 64)


def mark_part(mark: str) -> str:
    """The part of a mark of the table of what was forgotten, for `Catalogue.check`."""
    return mark[:2]


def _add(sums: _Sums, row: str, sign: int) -> None:
    """Add a row's hash to the sum of its part, or subtract it."""
    table, part, label, _ = row.split("\x1f", 3)
    rows, value = sums.get((table, part, label), (0, 0))
    number = int.from_bytes(blake2b(row.encode(), digest_size=16).digest())
    sums[table, part, label] = (rows + sign, value + sign * number)


def _opened(path: Path) -> sqlite3.Connection:
    connection = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        raise _told(path, error) from error


def _told(path: Path, error: sqlite3.DatabaseError) -> WorkspaceError:
    """The error for a failure to open the catalogue."""
    if not isinstance(error, sqlite3.OperationalError):
        return DamagedFile(f"{path} is no catalogue, or it is damaged: {error}")
    _check_disk(path.parent, error)
    if "locked" in str(error):
        return WorkspaceBusy(f"another process is opening {path}; try again")
    advice = "check its owner, its permissions, and which processes have it open"
    return WorkspaceError(f"{path} must be open to writing, got {error}: {advice}")


def _check_disk(folder: Path, error: sqlite3.OperationalError) -> None:
    """Raise `DiskFull` if SQLite failed because the disk is full."""
    if folder.is_dir() and ("full" in str(error) or "I/O" in str(error)):
        check_room(folder, ROOM)
