"""`migrate`: a catalogue of before migrations were numbered is listed, brought up to date, and keeps its content."""

import sqlite3
from pathlib import Path

import pytest

from shardgraph.storage.files import WriteLock
from shardgraph.storage.migrations import MIGRATIONS
from tests.cli.conftest import COUNT, TRAIN, run

# Dumped from a workspace after `init WS --seed 1` and `add WS data.npz`, at the last commit without migrations.
DUMP = Path(__file__).with_name("catalogue_before_migrations.sql")
ALL = [{"number": each.number, "name": each.name} for each in MIGRATIONS]


@pytest.fixture
def old(untrained: Path) -> Path:
    """A workspace with samples in the inbox, whose catalogue has the layout of before migrations were numbered."""
    catalogue = untrained / "catalog.sqlite"
    for path in untrained.glob("catalog.sqlite*"):
        path.unlink()
    with sqlite3.connect(catalogue) as db:
        db.executescript(DUMP.read_text())
    db.close()
    return untrained


def test_check_lists_what_is_pending_and_changes_nothing(old: Path):
    before = (old / "catalog.sqlite").read_bytes()
    for _ in range(2):
        assert run("migrate", old, "--check", "--json").json == {"pending": ALL, "applied": []}
    shown = run("migrate", old, "--check")
    assert shown.code == 0 and "pending migrations" in shown.out and MIGRATIONS[0].name in shown.out
    assert (old / "catalog.sqlite").read_bytes() == before


def test_migrations_are_applied_once_and_the_model_is_that_of_a_new_workspace(old: Path, ws: Path):
    assert run("migrate", old, "--json").json == {"pending": [], "applied": ALL}
    assert run("migrate", old, "--json").json == {"pending": [], "applied": []}
    assert run("migrate", old, "--check", "--json").json == {"pending": [], "applied": []}
    assert run("status", old, "--json").json["waiting"] == COUNT
    digest = run("status", ws, "--json").json["model_digest"]
    assert run("train", old, *TRAIN, "--json").json["model_digest"] == digest
    assert run("verify", old, "--full").code == 0


def test_migrate_says_what_it_did(old: Path):
    applied, again = run("migrate", old), run("migrate", old)
    assert applied.code == again.code == 0
    assert "applied migrations" in applied.out and MIGRATIONS[0].name in applied.out
    assert again.out == "" and again.err == "no migrations are pending\n"


def test_a_new_workspace_has_nothing_pending(ws: Path):
    assert run("migrate", ws, "--check", "--json").json == {"pending": [], "applied": []}


def test_while_another_process_writes_migrate_fails_and_check_does_not(old: Path):
    before = (old / "catalog.sqlite").read_bytes()
    with WriteLock(old):
        failed = run("migrate", old, "--json")
        assert failed.code == 1 and failed.json["kind"] == "WorkspaceBusy"
        assert run("migrate", old, "--check", "--json").json["pending"] == ALL
    assert (old / "catalog.sqlite").read_bytes() == before
    assert run("migrate", old, "--json").json["applied"] == ALL


def test_what_cannot_be_migrated_is_named(old: Path, tmp_path: Path):
    assert "no workspace" in run("migrate", tmp_path / "nowhere").err
    (old / "catalog.sqlite").write_bytes(b"no database, but long enough to look like one" * 100)
    failed = run("migrate", old, "--json")
    assert failed.code == 1 and failed.json["kind"] == "DamagedFile" and "catalog.sqlite" in failed.json["error"]


def test_a_catalogue_of_a_newer_version_is_refused(ws: Path):
    with sqlite3.connect(ws / "catalog.sqlite") as db:
        db.execute("INSERT INTO migrations VALUES (9999, 'later', '2030-01-01')")
    db.close()
    failed = run("migrate", ws)
    assert failed.code == 1 and "9999" in failed.err and "upgrade" in failed.err
