"""The catalogue: who is where, what is built, what was asked. SQLite, and the one thing that remembers.

Its bytes are outside the byte promise (SQLite's pages keep an order of history); its content is not.
Deleted rows are overwritten (`secure_delete`), and before anybody is told that a sample is gone `scrub` empties the
write-ahead log and looks for copies of its name: SQLite leaves some behind when it moves rows between pages.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from shardgraph.errors import DamagedFile, WorkspaceBusy, WorkspaceError
from shardgraph.storage.files import check_room

_SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
  id TEXT PRIMARY KEY, label TEXT NOT NULL, source TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL,
  unit TEXT NOT NULL,          -- the file that holds it now
  target TEXT                  -- the file it belongs in, once the topology is fixed
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_unit ON samples (unit, label);
CREATE INDEX IF NOT EXISTS by_target ON samples (target) WHERE target IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_source ON samples (source);
DROP INDEX IF EXISTS by_subject;     -- partial: `subject = ?` cannot use it
CREATE INDEX IF NOT EXISTS by_person ON samples (subject);
CREATE INDEX IF NOT EXISTS by_label ON samples (label);
CREATE TABLE IF NOT EXISTS units (   -- files of samples: inbox chunks, shards, held-out buckets
  name TEXT PRIMARY KEY, digest TEXT NOT NULL,
  dirty INTEGER NOT NULL DEFAULT 0   -- being rewritten: the file may be the old one or the new one
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS built (   -- adapters of groups, and the prototypes
  name TEXT PRIMARY KEY, key TEXT NOT NULL, digest TEXT NOT NULL, samples INTEGER NOT NULL, adapters INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
  number INTEGER PRIMARY KEY, state TEXT NOT NULL, instant INTEGER NOT NULL, received TEXT NOT NULL,
  finished TEXT, samples INTEGER NOT NULL, reason TEXT NOT NULL, opening TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS leaving ( -- the journal: what a request under way takes out; emptied before it ends
  id TEXT PRIMARY KEY, request INTEGER NOT NULL, unit TEXT NOT NULL, split TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten ( -- keyed hashes of what was forgotten, and the certificate that says so
  mark TEXT PRIMARY KEY, certificate INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sources ( -- what is known about who gave the data
  name TEXT PRIMARY KEY, owner TEXT NOT NULL, terms TEXT NOT NULL,
  rate REAL                          -- the share of its samples expected to be asked back in a year
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS privacy ( -- what groups with private edges have released, and what was removed since
  name TEXT PRIMARY KEY, value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue (   -- forget requests that a service was given; `wish` is emptied at the end
  number INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, received TEXT NOT NULL, deadline TEXT NOT NULL,
  asker TEXT NOT NULL, reason TEXT NOT NULL, samples INTEGER NOT NULL, wish TEXT NOT NULL,
  key TEXT UNIQUE,                   -- keyed hash of who asked and the Idempotency-Key
  body TEXT NOT NULL,                -- keyed hash of what was asked under that key
  request INTEGER, certificate INTEGER, failure TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_state ON queue (state);
CREATE INDEX IF NOT EXISTS by_request ON queue (request);
CREATE TABLE IF NOT EXISTS withheld ( -- samples whose adapters are out of service while their request waits
  id TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (id, entry)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS named ( -- keyed hashes of what an entry named: others in its certificate are not its asker's
  entry INTEGER NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (entry, mark)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_mark ON named (mark);
CREATE TABLE IF NOT EXISTS moves (   -- every state that an entry of the queue has entered
  number INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, state TEXT NOT NULL, time TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_entry ON moves (entry);
CREATE TABLE IF NOT EXISTS tokens (  -- who may do what; only hashes of the tokens are kept
  name TEXT PRIMARY KEY, role TEXT NOT NULL, sources TEXT NOT NULL, hash TEXT NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger (
  number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_event ON ledger (event);
CREATE TABLE IF NOT EXISTS consumers ( -- those who may use a part of the data
  name TEXT PRIMARY KEY,
  provision INTEGER NOT NULL DEFAULT 0 -- whether groups are kept that learned from that part alone
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rights (  -- which part: all training samples of a source, or of a shard
  consumer TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (consumer, kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS provisioned ( -- adapters of groups that learned from a consumer's part alone
  consumer TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
  samples INTEGER NOT NULL, adapters INTEGER NOT NULL,
  units TEXT NOT NULL,               -- the files that they learned from, as a JSON list
  PRIMARY KEY (consumer, name)
) WITHOUT ROWID;
"""


_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "busy_timeout=10000", "temp_store=MEMORY")
ROOM = 1 << 20  # bytes that SQLite needs at least, to write anything
FEW = 8  # names that are looked for one by one: for more, writing the file anew is faster


@dataclass(frozen=True)
class Row:
    """One sample's entry."""

    id: str
    label: str
    source: str
    subject: str
    split: str
    unit: str


class Catalogue:
    """An open catalogue; `transaction` is the only way to write."""

    def __init__(self, path: Path) -> None:
        try:
            self._path = path
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            for pragma in _PRAGMAS:
                self._db.execute(f"PRAGMA {pragma}").fetchall()
            self._db.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:  # nothing is wrong with its content
            _check_disk(path.parent, error)
            advice = "see who owns it, who may write there and who holds it"
            raise WorkspaceError(f"{path} must be open to writing, got {error}: {advice}") from error
        except sqlite3.DatabaseError as error:
            raise DamagedFile(f"{path} is no catalogue, or a damaged one: {error}") from error

    def close(self) -> None:
        """Close the file; the object is of no more use."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block's writes, or none of them."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                _check_disk(self._path.parent, error)
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise WorkspaceBusy("another process writes to the catalogue; try again") from error
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All of the block's reads see one state; keep it short, for the log cannot be emptied meanwhile."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def all(self, sql: str, *values: object) -> list[tuple]:
        """All rows of a query."""
        return self._db.execute(sql, values).fetchall()

    def one(self, sql: str, *values: object) -> tuple | None:
        """The first row of a query, if there is one."""
        return self._db.execute(sql, values).fetchone()

    def rows(self, column: str, wanted: Sequence[str]) -> list[Row]:
        """The samples whose `column` is one of `wanted`, by id."""
        sql = f"SELECT id, label, source, subject, split, unit FROM samples WHERE {_column(column)} {{}}"
        return sorted((Row(*row) for row in self.among(sql, wanted)), key=lambda row: row.id.encode())

    def counts(self, column: str, wanted: Sequence[str], condition: str = "1") -> dict[str, int]:
        """How many samples that satisfy an SQL condition of ours have each of `wanted` in `column`, where any has."""
        name = _column(column)
        return dict(
            self.among(
                f"SELECT {name}, count(*) FROM samples WHERE {name} {{}} AND {condition} GROUP BY {name}", wanted
            )
        )

    def among(self, sql: str, wanted: Sequence[str]) -> Iterator[tuple]:
        """The rows of queries that ask for a part of `wanted` each; `IN (...)` stands where `sql` has braces."""
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            yield from self._db.execute(sql.format(f"IN ({','.join('?' * len(part))})"), part)

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` that are here."""
        return {row.id for row in self.rows("id", list(ids))}

    def unit_digests(self) -> dict[str, str]:
        """The digest of every file of samples."""
        return dict(self.all("SELECT name, digest FROM units"))

    def unit_labels(self) -> dict[str, dict[str, int]]:
        """How many samples of each label every file holds."""
        counts: dict[str, dict[str, int]] = {}
        for unit, label, count in self.all("SELECT unit, label, count(*) FROM samples GROUP BY unit, label"):
            counts.setdefault(unit, {})[label] = count
        return counts

    def count(self, condition: str = "1") -> int:
        """How many samples satisfy an SQL condition of ours."""
        found = self.one(f"SELECT count(*) FROM samples WHERE {condition}")
        return found[0] if found else 0

    @staticmethod
    def log(db: sqlite3.Connection, event: str, detail: dict, time: datetime | None = None) -> None:
        """Add an event to the ledger, within a transaction; its detail names no sample."""
        row = ((time or datetime.now(UTC)).isoformat(), event, json.dumps(detail, sort_keys=True))
        db.execute("INSERT INTO ledger (time, event, detail) VALUES (?, ?, ?)", row)

    @staticmethod
    def soil(db: sqlite3.Connection) -> None:
        """Say that names were deleted for good, until `scrub` has seen to it; in the caller's transaction."""
        db.execute("PRAGMA user_version = 1")

    @property
    def soiled(self) -> bool:
        """Whether names were deleted whose copies nobody looked for yet: a process was interrupted."""
        return self.all("PRAGMA user_version") == [(1,)]

    def scrub(self, gone: Collection[str] | None = None) -> None:
        """Leave nothing deleted behind: empty the write-ahead log, and if names were deleted, look for their copies.

        The file is written anew if it holds one of `gone`, or if they are too many to look for, or not known.
        """
        self._empty_log()
        if not self.soiled:
            return
        if gone is None or len(gone) > FEW or self._holds(gone):
            try:
                self._db.execute("VACUUM")
            except sqlite3.OperationalError as error:
                _check_disk(self._path.parent, error)
                raise WorkspaceBusy(f"the catalogue could not be written anew, got {error}; try again") from error
            self._empty_log()
        self._db.execute("PRAGMA user_version = 0")
        self._empty_log()

    def _empty_log(self) -> None:
        busy = self.all("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        if busy:
            raise DamagedFile("the catalogue's log could not be emptied: a reader holds it open; try again")

    def _holds(self, names: Collection[str]) -> bool:
        """Whether one of these stands anywhere in the file, also as a part of something else.

        SQLite reads it: opening the file beside it, and closing it, would give up the locks of this process.
        """
        raw = self._db.serialize()
        return any(name.encode() in raw for name in names if name)


def _check_disk(folder: Path, error: sqlite3.OperationalError) -> None:
    """Say so if what SQLite could not do is for want of room."""
    if folder.is_dir() and ("full" in str(error) or "I/O" in str(error)):
        check_room(folder, ROOM)


def _column(name: str) -> str:
    assert name in ("id", "label", "source", "subject", "unit")
    return name
