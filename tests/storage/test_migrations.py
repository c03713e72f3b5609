"""Migrations: old catalogues keep their content and their mark, newer ones are refused, and a crash changes nothing."""

import sqlite3
import subprocess
import sys
from itertools import count
from multiprocessing import get_context

import pytest

from shardgraph.errors import DamagedFile, WorkspaceError
from shardgraph.storage import migrations
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.migrations import MIGRATIONS, pending_at
from shardgraph.storage.tables import erasures, inventory, ledger, parties, requests
from tests.storage.old_layout import write_old_catalogue


@pytest.fixture
def path(tmp_path):
    return tmp_path / "catalog.sqlite"


def layout(path):
    """Every table, index and row of a file, except when migrations were applied; and SQLite's user_version."""
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()
    made = sorted(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    tables = [name for kind, name, _ in made if kind == "table" and name not in ("migrations", "sqlite_sequence")]
    rows = {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables}
    connection.close()
    return made, rows, version


def test_migrations_are_numbered_in_order_and_every_file_is_listed():
    numbers = [migration.number for migration in MIGRATIONS]
    assert numbers[0] == 1 and numbers == sorted(set(numbers))
    files = sorted(path.name for path in MIGRATIONS[0].path.parent.glob("*.sql"))
    assert files == [migration.path.name for migration in MIGRATIONS]


def test_a_statement_with_semicolons_in_its_comments_stays_whole():
    for migration in MIGRATIONS:
        statements = list(migration.statements())
        assert "".join(statements) == migration.path.read_text()


def test_a_new_catalogue_has_all_migrations_and_is_clean(path):
    catalogue = Catalogue(path)
    assert catalogue.all("SELECT number, name FROM migrations") == [(one.number, one.name) for one in MIGRATIONS]
    assert not catalogue.dirty
    catalogue.close()
    assert pending_at(path) == []


def test_an_old_catalogue_keeps_all_it_says(path):
    write_old_catalogue(path)
    catalogue = Catalogue(path)
    assert [row.id for row in inventory.find_by(catalogue, "source", ["ann", "bob"])] == ["ann-1", "bob-1", "bob-2"]
    assert inventory.arriving(catalogue, "shard:bob") == {"bob-2": "inbox:2"}
    assert inventory.find_unit(catalogue, "shard:bob") == inventory.Unit("", True)
    assert inventory.built_groups(catalogue) == {"ann": inventory.Built("k1", "d4", 1, 1)}
    assert inventory.built_prototypes(catalogue) == inventory.Built("k2", "d5", 1, 0)
    opening = '{"groups": ["ann"], "emptied": ["e1"]}'
    assert erasures.find_erasure(catalogue, 2) == erasures.Erasure(2, "erasing", True, opening)
    assert erasures.leaving(catalogue, 2) == [erasures.Leaving("carl-1", "shard:carl", "train")]
    assert erasures.certificate_of(catalogue, "m1") == 1
    done = requests.find_request(catalogue, 1)
    assert (done.state, done.erasure, done.certificate) == ("done", 1, 1)
    assert done.history == (("received", "2026-01-01"), ("done", "2026-01-02"))
    assert requests.find_request(catalogue, 3).failure == "why"
    assert requests.requests_of_erasure(catalogue, 2) == [3]
    assert requests.find_repeated(catalogue, "key-1") == (1, "body-1")
    assert requests.find_wish(catalogue, 2) == ('{"samples": ["ann-1"]}', "")
    assert requests.withheld_by(catalogue, [2]) == ["ann-1"]
    assert requests.was_named_by(catalogue, "ann", "m2")
    assert ledger.last_certificate(catalogue) == 1 and ledger.logged_name_of(catalogue, 1) == "r1"
    assert ledger.privacy_account(catalogue) == '{"reads": {}}'
    assert parties.described_sources(catalogue) == {"ann": parties.Terms("Ann", "until 2031", 0.25)}
    assert parties.find_grant(catalogue, "shop") == parties.Grant("shop", ("bob",), ("ann",), True)
    assert [group.units for group in parties.provisioned_groups(catalogue)] == [("shard:ann",)]
    assert [token.name for token in parties.find_tokens(catalogue)] == ["op"] and parties.find_token(catalogue, "gone")
    assert not catalogue.dirty
    catalogue.close()


def test_an_old_catalogue_ends_with_the_layout_of_a_new_one(tmp_path, path):
    write_old_catalogue(path)
    Catalogue(path).close()
    Catalogue(tmp_path / "new.sqlite").close()
    names = [[(kind, name) for kind, name, _ in layout(one)[0]] for one in (path, tmp_path / "new.sqlite")]
    assert names[0] == names[1]


def test_numbers_of_requests_go_on_where_they_were(path):
    write_old_catalogue(path)
    catalogue = Catalogue(path)
    new = requests.NewRequest("2026-01-05", "2026-02-04", "ann", "", "{}", None, "")
    with catalogue.transaction() as transaction:
        assert requests.add_request(transaction, new, ["bob-1"], ["m3"]) == 4
    catalogue.close()


def test_a_table_and_an_index_that_a_still_older_catalogue_lacks_are_added(path):
    write_old_catalogue(path)
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP TABLE privacy; DROP INDEX by_person; CREATE INDEX by_subject ON samples (subject) WHERE subject <> ''"
    )
    connection.close()
    catalogue = Catalogue(path)
    assert ledger.privacy_account(catalogue) is None
    steps = catalogue.all("EXPLAIN QUERY PLAN SELECT * FROM samples WHERE subject IN (?, ?)", "a", "b")
    assert "SEARCH" in steps[0][-1]
    assert catalogue.one("SELECT 1 FROM sqlite_master WHERE name = 'by_subject'") is None
    catalogue.close()


def test_a_dirty_catalogue_stays_dirty_until_it_is_scrubbed(path):
    write_old_catalogue(path, dirty=True)
    for _ in range(2):  # also when it is opened again
        catalogue = Catalogue(path)
        assert catalogue.dirty
        catalogue.close()
    catalogue = Catalogue(path)
    catalogue.scrub()
    assert not catalogue.dirty
    catalogue.close()
    again = Catalogue(path)
    assert not again.dirty
    again.close()


def test_names_that_were_deleted_before_the_migration_are_gone_after_the_scrub(path):
    """Also the copies that SQLite left between rows: the migration does not make them look clean."""
    write_old_catalogue(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA secure_delete=OFF").fetchall()
    connection.execute("DELETE FROM samples WHERE id = 'ann-1'")
    connection.execute("DELETE FROM withheld")
    connection.execute("UPDATE queue SET wish = '{}'")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert b"ann-1" in path.read_bytes(), "the search itself works"
    catalogue = Catalogue(path)
    catalogue.scrub()
    left = b"".join(one.read_bytes() for one in path.parent.iterdir())
    assert b"ann-1" not in left
    catalogue.close()


def test_looking_changes_nothing(path):
    write_old_catalogue(path, dirty=True)
    before, files = path.read_bytes(), sorted(path.parent.iterdir())
    assert pending_at(path) == list(MIGRATIONS)
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == (before, files)


def test_looking_at_what_is_no_catalogue_says_so(path):
    with pytest.raises(DamagedFile, match="missing"):
        pending_at(path)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(DamagedFile, match="no catalogue"):
        pending_at(path)


def test_looking_sees_what_an_open_catalogue_has_in_its_log(path):
    catalogue = Catalogue(path)
    assert pending_at(path) == []
    with catalogue.transaction() as transaction:
        transaction.execute("INSERT INTO ledger (time, event, detail) VALUES ('', '', '')")
    catalogue.close()


def test_a_newer_catalogue_is_refused_and_left_alone(path):
    catalogue = Catalogue(path)
    with catalogue.transaction() as transaction:
        transaction.execute("INSERT INTO migrations VALUES (?, 'later', '')", (MIGRATIONS[-1].number + 1,))
    catalogue.close()
    before = layout(path)
    for look in (Catalogue, pending_at):
        with pytest.raises(WorkspaceError, match="upgrade shardgraph"):
            look(path)
    assert layout(path) == before


class Stopping:
    """A connection that is interrupted before its n-th statement."""

    def __init__(self, connection, left):
        self._connection, self._left = connection, left

    def execute(self, sql, values=()):
        self._left -= 1
        if self._left <= 0:
            raise KeyboardInterrupt
        return self._connection.execute(sql, values)


def test_a_migration_that_is_interrupted_changes_nothing(path):
    """Before any of its statements, the record of what was applied included."""
    write_old_catalogue(path, dirty=True)
    before = layout(path)
    for left in count(1):
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            migrations.apply(Stopping(connection, left))
            break
        except KeyboardInterrupt:
            assert left < 200
        finally:
            connection.close()  # without a commit
        assert layout(path) == before
    assert left > 30, "there were that many statements"
    assert layout(path) == before
    catalogue = Catalogue(path)
    assert catalogue.dirty
    catalogue.close()
    assert pending_at(path) == []


KILLED = """
import os, sqlite3, sys
from shardgraph.storage import migrations

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
assert migrations.apply(connection)
os._exit(9)
"""


def test_a_process_that_is_killed_before_the_commit_leaves_the_old_layout(path):
    write_old_catalogue(path, dirty=True)
    before = layout(path)
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == 9
    assert layout(path) == before
    catalogue = Catalogue(path)
    assert catalogue.dirty
    catalogue.close()
    assert pending_at(path) == []


def _open(path, start, told):
    start.wait()
    try:
        catalogue = Catalogue(path)
        told.put(catalogue.all("SELECT number FROM migrations"))
        catalogue.close()
    except Exception as error:
        told.put(repr(error))


@pytest.mark.parametrize("old", [True, False], ids=["an old file", "a new file"])
def test_processes_that_open_a_catalogue_at_once_migrate_it_once(path, old):
    if old:
        write_old_catalogue(path)
    context = get_context("fork")
    start, told = context.Event(), context.Queue()
    openers = [context.Process(target=_open, args=(path, start, told)) for _ in range(6)]
    for opener in openers:
        opener.start()
    start.set()
    found = [told.get(timeout=60) for _ in openers]
    for opener in openers:
        opener.join()
    assert found == [[(one.number,) for one in MIGRATIONS]] * len(openers)
