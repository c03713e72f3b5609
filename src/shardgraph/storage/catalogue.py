"""The catalogue: a SQLite database of what the workspace holds, what is built, and what was requested.

Its content is reproducible; the bytes of its file are not, because the order of SQLite's pages depends on history.
Deleted rows are overwritten (`secure_delete`). SQLite also leaves copies of rows behind when it moves them between
pages. `Catalogue.scrub` empties the write-ahead log and removes such copies; it must succeed before a sample is
reported as erased.

`storage.checksums` covers every row. Only these two modules, `storage.tables` and `storage.migrations` contain SQL.
Other packages call the functions of `storage.tables`.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from shardgraph.errors import DamagedFile, DiskFull, WorkspaceBusy, WorkspaceError
from shardgraph.storage import migrations
from shardgraph.storage.checksums import FIRST_LAYOUT, Checksums
from shardgraph.storage.files import check_room, retry_while_busy

_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "busy_timeout=10000", "temp_store=MEMORY")
_OPENING = 10.0  # seconds to wait for a process that creates or migrates the same file
ROOM = 1 << 20  # bytes of free disk space that SQLite needs at least
FEW = 8  # up to so many names are searched for one by one; for more, rewriting the file is faster
_PART = 500  # values in one `IN (...)`
_BATCH = 10_000  # rows that are written between two looks at what the triggers collected
_T = TypeVar("_T")


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
        self._checksums = Checksums(path, self._db, self._run)
        try:
            if (layout := self._layout()) != migrations.MIGRATIONS[-1].number:
                with self._uncounted() as transaction:
                    if layout >= FIRST_LAYOUT:
                        self.check_all()  # the sums are made anew below
                    migrations.apply(transaction)
                    self._checksums.recount()
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
        if not self._checksums.installed:
            self._checksums.install()
        with self._uncounted() as transaction:
            yield transaction
            self._checksums.save()

    @contextmanager
    def _uncounted(self) -> Iterator[Transaction]:
        self._checksums.discard()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield Transaction(self._db, self._checksums.collect)
            self._db.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.DatabaseError):  # the first error says more
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            self._checksums.discard()
            if isinstance(error, sqlite3.DatabaseError) and (told := _told(self._path, error)) is not error:
                raise told from error
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All of the block's reads see one state; keep it short, because `scrub` has to wait for it."""
        self._checksums.discard()
        self.all("BEGIN")
        try:
            yield
        finally:
            self.all("ROLLBACK")

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query, within a transaction including what it has written so far."""
        return self._run(lambda: self._db.execute(sql, values).fetchall())

    def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        row: tuple[Any, ...] | None = self._run(lambda: self._db.execute(sql, values).fetchone())
        return row

    def among(self, sql: str, wanted: Sequence[object], *more: object) -> Iterator[tuple[Any, ...]]:
        """The rows of a query for any number of values; `IN (...)` replaces the braces in `sql`.

        `more` are the values of the question marks after the braces.
        """
        for start in range(0, len(wanted), _PART):
            part = wanted[start : start + _PART]
            yield from self.all(sql.format(f"IN ({','.join('?' * len(part))})"), *part, *more)

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

    def check(self, table: str, parts: Collection[str] | None = None) -> int:
        """Raise `DamagedFile` unless the rows of a table, or of these parts, are those written; returns their number.

        A part of the samples is a unit; of the requests, `request_part`; of what was forgotten, `mark_part`.
        """
        return self._checksums.check(table, parts)

    def check_all(self) -> int:
        """Check all tables, the layout and the indexes; returns the number of rows."""
        return self._checksums.check_all()

    def parts(self, table: str) -> dict[tuple[str, str], int]:
        """The number of rows of every part of a table, in order; of the samples, by unit and label."""
        return self._checksums.parts(table)

    def scrub(self, gone: Collection[str] | None = None) -> None:
        """Empty the write-ahead log and, if names were deleted, remove the copies that SQLite left in the file.

        The file is rewritten if it contains one of the names in `gone`, if there are many of them, or if they are
        not known.
        """
        self._empty_log()
        if not self.dirty:
            return
        if gone is None or len(gone) > FEW or self._holds(gone):
            self.all("VACUUM")
            self._empty_log()
        with self.transaction() as transaction:
            transaction.execute("DELETE FROM state WHERE name = 'dirty'")
        self._empty_log()

    def _empty_log(self) -> None:
        busy = self.all("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        if busy:
            raise WorkspaceBusy("the catalogue's log could not be emptied: a reader holds it open; try again")

    def _holds(self, names: Collection[str]) -> bool:
        """Whether one of these names occurs anywhere in the file, plain or as JSON, also as a part of other text.

        SQLite reads the file: opening and closing it a second time would release the locks of this process.
        """
        raw = self._run(self._db.serialize)
        return any(form.encode() in raw for name in names if name for form in {name, json.dumps(name)[1:-1]})

    def _run(self, act: Callable[[], _T]) -> _T:
        """The result of an act on the database; its errors become ours. `transaction` does the same for its block."""
        try:
            return act()
        except sqlite3.DatabaseError as error:
            if (told := _told(self._path, error)) is not error:
                raise told from error
            raise


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


def _told(path: Path, error: sqlite3.DatabaseError) -> Exception:
    """What an error of SQLite means to a person, and what to do; the error itself if a statement is wrong."""
    if type(error) not in (sqlite3.DatabaseError, sqlite3.OperationalError):
        return error
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the details of extended codes
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "UTF-8" in str(error):
        advice = "check the disk and try again; if the error stays, restore the workspace from a backup"
        return DamagedFile(f"{path} is no catalogue, or it is damaged, got {error}: {advice}")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) and path.parent.is_dir():
        try:
            check_room(path.parent, ROOM)
        except DiskFull as full:
            return full
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"{path.name} needs more room, got {error}: free some, or raise the quota")
    if code == sqlite3.SQLITE_IOERR:
        advice = "check the disk and the system's log, then try again"
        return WorkspaceError(f"{path.name} could not be read or written, got {error}: {advice}")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return WorkspaceBusy(f"another process has {path.name} open and writes to it, got {error}; try again")
    if "VACUUM" in str(error):
        return WorkspaceBusy(f"the catalogue could not be rewritten, got {error}; try again")
    advice = "check its owner, its permissions, and which processes have it open"
    return WorkspaceError(f"{path.name} must be open to writing, got {error}: {advice}")
