"""The catalogue: all or nothing, and nothing of what was deleted in its raw bytes."""

import random
import shutil
import subprocess
import sys

import pytest

from shardgraph.errors import DamagedFile, DiskFull, WorkspaceBusy, WorkspaceError
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import inventory


def insert(catalogue, ids, unit="inbox:1"):
    found = [(i, f"label{k % 5}", f"source{k % 3}", f"subject-of-{i}", "train", unit) for k, i in enumerate(ids)]
    with catalogue.transaction() as db:
        db.executemany("INSERT INTO samples (id,label,source,subject,split,unit) VALUES (?,?,?,?,?,?)", found)


def raw_bytes(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("catalog.sqlite*")))


def test_a_deleted_sample_is_nowhere_in_the_raw_files(tmp_path):
    """Many pages, several rounds of moves and deletions; while open after `scrub`, and after closing."""
    draw = random.Random(0)
    catalogue, here, gone = Catalogue(tmp_path / "catalog.sqlite"), set(), set()
    for part in range(6):
        arriving = [f"person-{draw.getrandbits(64):016x}-{part}" for _ in range(400)]
        insert(catalogue, arriving)
        here.update(arriving)
        with catalogue.transaction() as db:
            db.executemany(
                "UPDATE samples SET target = ? WHERE id = ?", [(f"shard:{draw.randrange(8)}", i) for i in arriving]
            )
        with catalogue.transaction() as db:
            db.execute("UPDATE samples SET unit = target, target = NULL WHERE target IS NOT NULL")
        leaving = draw.sample(sorted(here), 60)
        with catalogue.transaction() as db:
            db.executemany("INSERT INTO leaving VALUES (?, 1, 'shard:0', 'train')", [(i,) for i in leaving])
            db.executemany("DELETE FROM samples WHERE id = ?", [(i,) for i in leaving])
        with catalogue.transaction() as db:
            db.execute("DELETE FROM leaving WHERE erasure = 1")
        catalogue.scrub()
        here, gone = here.difference(leaving), gone.union(leaving)
        raw = raw_bytes(tmp_path)
        assert len(raw) > 100_000
        assert [i for i in gone if i.encode() in raw] == []
        assert all(i.encode() in raw for i in here), "the search itself works"
    catalogue.close()
    raw = raw_bytes(tmp_path)
    assert [i for i in gone if i.encode() in raw] == []
    with_other = Catalogue(tmp_path / "catalog.sqlite")
    assert inventory.known_ids(with_other, gone) == set()
    assert inventory.count_samples(with_other) == len(here) == 6 * 340
    with_other.close()


def test_before_scrubbing_the_log_still_knows(tmp_path, catalogue):
    """Why `scrub` is there: this test would pass for any catalogue if the one above could not fail."""
    insert(catalogue, ["a-sample-to-forget"])
    catalogue.scrub()
    with catalogue.transaction() as db:
        db.execute("DELETE FROM samples")
    assert b"a-sample-to-forget" in raw_bytes(tmp_path)
    catalogue.scrub()
    assert b"a-sample-to-forget" not in raw_bytes(tmp_path)


def test_a_reader_that_holds_the_log_open_is_reported(tmp_path, catalogue):
    insert(catalogue, ["a"])
    reader = Catalogue(tmp_path / "catalog.sqlite")
    reader._db.execute("BEGIN")
    inventory.count_samples(reader)
    catalogue._db.execute("PRAGMA busy_timeout=50")
    with catalogue.transaction() as db:
        db.execute("DELETE FROM samples")
    with pytest.raises(WorkspaceBusy, match="reader"):
        catalogue.scrub()
    reader.close()
    catalogue.scrub()


def test_a_transaction_is_all_or_nothing(catalogue):
    with pytest.raises(KeyboardInterrupt), catalogue.transaction() as db:
        db.execute("INSERT INTO units (name, digest) VALUES ('inbox:1', 'x')")
        raise KeyboardInterrupt
    assert inventory.unit_digests(catalogue) == {}
    with catalogue.transaction() as db:
        db.execute("INSERT INTO units (name, digest) VALUES ('inbox:1', 'x')")
    assert inventory.unit_digests(catalogue) == {"inbox:1": "x"}


def test_rows_are_found_by_column_sorted_by_id_also_beyond_one_query(catalogue):
    ids = [f"{i:04d}" for i in range(1200)]
    insert(catalogue, reversed(ids))
    assert [row.id for row in inventory.find_by_id(catalogue, ids)] == ids
    assert {row.label for row in inventory.find_by(catalogue, "label", ["label1"])} == {"label1"}
    assert inventory.known_ids(catalogue, ["0001", "nobody"]) == {"0001"}
    assert inventory.unit_labels(catalogue) == {"inbox:1": {f"label{k}": 240 for k in range(5)}}


def test_what_is_no_catalogue_is_told_apart(tmp_path):
    (tmp_path / "catalog.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(DamagedFile, match=r"catalog\.sqlite"):
        Catalogue(tmp_path / "catalog.sqlite")


def test_a_catalogue_that_cannot_be_written_is_not_called_damaged(root):
    (root / "catalog.sqlite").mkdir()
    with pytest.raises(WorkspaceError, match=r"catalog\.sqlite must be open to writing") as problem:
        Catalogue(root / "catalog.sqlite")
    assert not isinstance(problem.value, DamagedFile)


@pytest.mark.parametrize("known", [True, False], ids=["names known", "after a crash"])
@pytest.mark.parametrize("seed", range(4))
def test_no_copy_of_a_deleted_name_stays_between_the_rows(tmp_path, seed, known):
    """When rows leave, SQLite moves others between pages and leaves copies behind that no query finds."""
    path, rng = tmp_path / "catalog.sqlite", random.Random(seed)
    catalogue = Catalogue(path)
    names = [f"sample-{rng.getrandbits(40):010x}" for _ in range(600)]
    rows = [(name, "cat", "ann", f"subject-{name}", "train", f"shard:{i % 4}", None) for i, name in enumerate(names)]
    with catalogue.transaction() as db:
        db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", rows)
    catalogue.scrub()
    gone = rng.sample(names, 120)
    for part in (gone[:60], gone[60:64], gone[64:]):
        with catalogue.transaction() as db:
            db.executemany("DELETE FROM samples WHERE id = ?", [(name,) for name in part])
            db.mark_dirty()
        assert catalogue.dirty
        catalogue.scrub({*part, *(f"subject-{name}" for name in part)} if known else None)
        assert not catalogue.dirty
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert [name for name in gone if name.encode() in left] == []
    assert inventory.count_samples(catalogue) == 480
    catalogue.close()


def test_no_name_is_written_to_a_temporary_file(tmp_path):
    catalogue = Catalogue(tmp_path / "catalog.sqlite")
    assert catalogue.all("PRAGMA temp_store") == [(2,)], "in memory: elsewhere may be an unencrypted disk"
    catalogue.close()


def test_a_full_disk_is_called_that(catalogue, monkeypatch):
    catalogue._db.execute("PRAGMA max_page_count = 40")  # SQLite's own word for it is the same
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=0))
    with pytest.raises(DiskFull, match="the disk has 0 MB"):
        insert(catalogue, [f"sample-{i:08d}" for i in range(5000)])
    assert inventory.count_samples(catalogue) == 0


def test_looking_for_names_gives_no_lock_away(tmp_path):
    """Closing a file gives up all locks of the process on it, SQLite's too; then others believe that they are alone."""
    path = tmp_path / "catalog.sqlite"
    catalogue = Catalogue(path)
    with catalogue.transaction() as db:
        db.mark_dirty()
    catalogue.scrub({"nobody"})
    insert(catalogue, ["somebody"])
    visit = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT 1 FROM samples'); db.close()"
    subprocess.run([sys.executable, "-c", visit, path], check=True)
    assert path.with_name("catalog.sqlite-wal").exists(), "the last to leave takes the log away, and we are still here"
    catalogue.close()
