"""Migrations: numbered changes of the catalogue's layout, each a file of SQL beside this one.

    pending(connection)     the migrations that a catalogue lacks; changes nothing
    apply(transaction)      carries them out, and records them in the same transaction
    pending_at(path)        the same for a file that is not open

A new catalogue gets all of them. A released migration is never edited; a further change is a new migration.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from shardgraph.errors import DamagedFile, WorkspaceError
from shardgraph.storage.files import require_content


@dataclass(frozen=True)
class Migration:
    """One numbered change of the layout."""

    number: int
    name: str

    @property
    def path(self) -> Path:
        """The file that holds its statements."""
        return Path(__file__).parent / f"{self.number:04d}_{self.name.replace(' ', '_')}.sql"

    def statements(self) -> Iterator[str]:
        """Its SQL statements, in order."""
        statement = ""
        for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""


MIGRATIONS = (
    Migration(1, "first layout"),
    Migration(2, "requests and erasures"),
    Migration(3, "checksums"),
    Migration(6, "contents"),
)


class Connection(Protocol):
    """An object that executes SQL: a connection, or a transaction of the catalogue."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> sqlite3.Cursor:
        """Execute one statement."""
        ...


def pending(connection: Connection) -> list[Migration]:
    """The migrations that this catalogue lacks, in order; an error if a newer shardgraph has written it."""
    done = _applied(connection)
    if done > MIGRATIONS[-1].number:
        raise WorkspaceError(
            f"the catalogue has layout {done}, written by a newer shardgraph; this one reads layouts up to "
            f"{MIGRATIONS[-1].number}: upgrade shardgraph"
        )
    return [migration for migration in MIGRATIONS if migration.number > done]


def apply(transaction: Connection) -> list[Migration]:
    """Apply the pending migrations and record them, in the caller's transaction: all of them or none."""
    found = pending(transaction)  # within the transaction: another process may have applied some meanwhile
    for migration in found:
        for statement in migration.statements():
            transaction.execute(statement)
        time = datetime.now(UTC).isoformat()
        transaction.execute("INSERT INTO migrations VALUES (?, ?, ?)", (migration.number, migration.name, time))
    return found


def pending_at(path: Path) -> list[Migration]:
    """The migrations that the catalogue in this file lacks; the file is opened for reading only."""
    require_content(path)
    # Without a log no process has the file open; a plain read-only connection would create a log and leave it there.
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)
        return pending(connection)
    except sqlite3.OperationalError as error:
        raise WorkspaceError(f"{path} cannot be read, got {error}") from error
    except sqlite3.DatabaseError as error:
        raise DamagedFile(f"{path} is no catalogue, or it is damaged: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def _applied(connection: Connection) -> int:
    """The number of the last migration that was applied; 0 if none was recorded."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'").fetchone():
        return 0
    number: int = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()[0]
    return number
