"""One bit of the catalogue rots: a forget refuses, or it is complete; `verify` finds it."""

import shutil
import sqlite3
from contextlib import suppress

import pytest

from shardgraph.errors import DamagedFile, ShardgraphError, VerificationError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, BySource
from shardgraph.storage.samples import unpack_samples
from shardgraph.storage.tables import inventory
from tests.strategies import LABELS, Row, embed

SOURCES = ("src-a", "src-b", "src-c")
ROWS = [
    Row(f"r{i:03d}", LABELS[i % 4], SOURCES[i % 3], f"person{i % 5}", "test" if i % 11 == 3 else "train")
    for i in range(60)
]
OF_A = {row.id for row in ROWS if row.source == "src-a"}


@pytest.fixture
def workspace(trained):
    return trained(Bilevel(2, 2), ROWS)


def rotten_copies(workspace, tmp_path, old: bytes, new: bytes):
    """Copies of the workspace, in each of which another occurrence of `old` in the catalogue's file is replaced."""
    workspace.close()
    raw = (workspace.root / "catalog.sqlite").read_bytes()
    for place in (place for place in range(len(raw)) if raw.startswith(old, place)):
        copy = tmp_path / f"{place}"
        shutil.copytree(workspace.root, copy)
        (copy / "catalog.sqlite").write_bytes(raw[:place] + new + raw[place + len(old) :])
        yield copy


def still_there(root) -> set[str]:
    """The ids in the files of samples, whatever the catalogue says."""
    files = [path for folder in ("shards", "heldout", "inbox") for path in (root / folder).rglob("*.safetensors")]
    return {sample for path in files for sample in unpack_samples(path.read_bytes()).ids}


def test_a_rotten_index_entry_leaves_no_sample_of_a_forgotten_source(workspace, tmp_path):
    """Entries of the index over sources are the text of the source, then the id."""
    tried = 0
    for sample in sorted(OF_A)[::5]:
        for copy in rotten_copies(workspace, tmp_path, b"src-a" + sample.encode(), b"src-c" + sample.encode()):
            tried += 1
            with Workspace(copy) as again:
                assert not again.verify().ok, "PRAGMA integrity_check compares indexes with their table"
                certified = 0
                with suppress(DamagedFile):  # SQLite may find the index malformed when it deletes the rows
                    certified = len(again.forget(ForgetRequest(sources=("src-a",))).entries)
                assert again.certificates.last() == bool(certified)
            assert certified in (0, len(OF_A))
            assert still_there(copy) & OF_A == (set() if certified else OF_A)
    assert tried >= 3


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("source", "src-b"),
        ("subject", "nobody"),
        ("label", "ant"),
        ("unit", "shard:c1-f1"),
        ("split", "test"),
        ("id", "x"),
    ],
)
def test_a_changed_row_is_found_and_nothing_is_certified(workspace, column, value):
    victim = next(row for row in ROWS if row.source == "src-a" and row.label == "cat" and row.split == "train")
    unit = workspace.context.catalogue.one("SELECT unit FROM samples WHERE id = ?", victim.id)[0]
    value = "shard:c0-f0" if column == "unit" and unit == value else value
    workspace.close()
    with sqlite3.connect(workspace.root / "catalog.sqlite") as db:  # indexes follow, so SQLite finds nothing wrong
        db.execute(f"UPDATE samples SET {column} = ? WHERE id = ?", (value, victim.id))
    db.close()
    with Workspace(workspace.root) as again:
        checks = {check.name: check for check in again.verify().checks}
        assert not checks["samples"].ok and "samples" in checks["samples"].detail
        with pytest.raises(ShardgraphError):
            again.forget(ForgetRequest(sources=("src-a",)))
        with pytest.raises(ShardgraphError):
            again.forget(ForgetRequest(samples=(victim.id,)))
        assert again.certificates.last() == 0
    assert still_there(workspace.root) >= OF_A


def test_a_damaged_row_elsewhere_does_not_stop_a_forget_of_one_sample(workspace):
    placed = dict(workspace.context.catalogue.all("SELECT id, unit FROM samples"))
    first = next(row.id for row in ROWS if placed[row.id] == "shard:c0-f0")
    other = next(row.id for row in ROWS if placed[row.id] == "shard:c1-f1")
    workspace.close()
    with sqlite3.connect(workspace.root / "catalog.sqlite") as db:
        db.execute("UPDATE samples SET subject = 'nobody' WHERE id = ?", (other,))
    db.close()
    with Workspace(workspace.root) as again:
        assert len(again.forget(ForgetRequest(samples=(first,))).entries) == 1
        with pytest.raises(DamagedFile, match="samples are not those that were written"):
            again.forget(ForgetRequest(subjects=("person1",)))


def test_a_rotten_mark_lets_no_forgotten_sample_return(workspace):
    gone = next(row for row in ROWS if row.source == "src-b")
    workspace.forget(ForgetRequest(samples=(gone.id,)))
    mark = workspace.context.keys.mark("samples", gone.id)
    workspace.close()
    with sqlite3.connect(workspace.root / "catalog.sqlite") as db:
        db.execute(
            "UPDATE forgotten SET mark = ? WHERE mark = ?", (mark[:-1] + ("0" if mark[-1] != "0" else "1"), mark)
        )
    db.close()
    with Workspace(workspace.root) as again, pytest.raises(DamagedFile, match="forgotten"):
        again.add(embed([gone]))


@pytest.mark.parametrize("name", ["secret.key", "signing.key"])
def test_a_rotten_key_is_refused(workspace, name):
    workspace.forget(ForgetRequest(samples=("r000",)))
    workspace.close()
    path = workspace.root / name
    raw = bytearray(path.read_bytes())
    raw[7] ^= 4
    path.write_bytes(raw)
    with pytest.raises(DamagedFile, match="restore both from a backup"):
        Workspace(workspace.root)


def test_a_changed_configuration_is_refused_before_the_first_training_too(create):
    workspace = create("ws", classes=LABELS)
    workspace.add(embed(ROWS))
    workspace.close()
    path = workspace.root / "config.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":', b'"seed":1'))
    with pytest.raises(DamagedFile, match=r"config\.json was changed"):
        Workspace(workspace.root)


@pytest.mark.parametrize("odd", ["a\x1fb", "a\x00b", "\x1f", "a\nb", "a'b\"c", "\u202e\U0001f600"])
def test_names_of_any_characters_are_counted_and_forgotten(trained, odd):
    rows = [
        Row(f"{odd}{i}", odd if i % 2 else "dog", f"{odd}{i % 3}", f"{odd}{i % 4}", "test" if i % 7 == 3 else "train")
        for i in range(36)
    ]
    workspace = trained(BySource(), rows, classes=[odd, "dog"])
    assert workspace.context.catalogue.check_all() and workspace.verify(full=True).ok
    assert len(workspace.forget(ForgetRequest(sources=(f"{odd}0",))).entries) == 12
    assert len(workspace.forget(ForgetRequest(subjects=(f"{odd}1",))).entries) == 6
    assert workspace.verify(full=True).ok


def test_no_certificate_while_a_sample_of_a_forgotten_source_is_listed(workspace):
    context = workspace.context
    plan = workspace.plan(ForgetRequest(sources=("src-a",)))
    number = execute.accept(context, plan, False)
    late = inventory.Row("late", "cat", "src-a", "", "train", "inbox:99")
    with context.catalogue.transaction() as transaction:
        inventory.add_samples(transaction, [late])
    with pytest.raises(VerificationError, match="still here; no certificate"):
        execute.finish(context, number)
    assert not (workspace.root / "certificates" / "000001.json").exists() and workspace.certificates.last() == 0
