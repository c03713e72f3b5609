"""The record: a workspace restored from a backup asks again for what was forgotten since, before it serves."""

import json
import shutil
import sqlite3

import pytest

from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.proof.log_standing import log_path
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import inventory, ledger, requests
from tests.strategies import embed, interrupted, many, never_saw, promised_files

ROWS = many(18)


@pytest.fixture
def kept(workspace, fast_path):
    """A workspace with a record, and its backup."""
    workspace.queue.keep_log(fast_path / "record.jsonl")
    shutil.copytree(workspace.root, fast_path / "backup")
    return workspace


def restore(workspace, fast_path):
    workspace.close()
    shutil.rmtree(workspace.root)
    shutil.copytree(fast_path / "backup", workspace.root)
    return Workspace(workspace.root, workers=1)


def test_a_restored_workspace_asks_again_for_what_was_forgotten_since(kept, fast_path):
    gone = [ROWS[0].id, ROWS[5].id, ROWS[9].id]
    kept.queue.submit(Submission(ForgetRequest(samples=(gone[0],))))
    kept.queue.withhold()
    kept.queue.carry_out()
    kept.forget(ForgetRequest(samples=(gone[1],)))
    kept.queue.submit(Submission(ForgetRequest(samples=(gone[2],))))
    kept.queue.cancel(kept.queue.submit(Submission(ForgetRequest(samples=(ROWS[12].id,)))).number)
    with restore(kept, fast_path) as again:
        with pytest.raises(WorkspaceError, match=r"3 requests .* must be carried out again; `shardgraph repair"):
            again.model()
        entry = again.queue.replay()
        assert entry and (entry.samples, entry.asker) == (3, "record")
        manifest = again.status()["model_digest"]
        assert again.model().digest != manifest, "withheld before anything is served"
        again.queue.withhold()
        again.queue.carry_out()
        assert promised_files(again.root) == never_saw(
            again, [row for row in ROWS if row.id not in gone], fast_path / "never"
        )
        assert again.queue.replay() is None


@pytest.mark.parametrize("write", ["describe", "train", "forget", "add", "repair"])
def test_whatever_writes_first_carries_out_what_was_forgotten_since(kept, fast_path, write):
    gone = [ROWS[0].id, ROWS[5].id]
    for sample in gone:
        kept.forget(ForgetRequest(samples=(sample,)))
    with restore(kept, fast_path) as again:
        late = ROWS[1]._replace(id="latecomer")
        if write == "describe":
            again.sources.describe("ann", owner="Ann")
        elif write == "train":
            again.train(rebuild=True)
        elif write == "forget":
            again.forget(ForgetRequest(samples=(ROWS[2].id,)))
        elif write == "add":
            again.add(embed([late]))
            again.train()
        else:
            again.repair()
        left = [row for row in ROWS if row.id not in gone and (write != "forget" or row != ROWS[2])]
        assert promised_files(again.root) == never_saw(
            again, [*left, late] if write == "add" else left, fast_path / "never"
        )
        assert again.verify().ok and again.model()
        assert "carried out again: 2" in " ".join(again.context.notes)


def test_without_a_restore_nothing_is_asked_again(kept):
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    assert kept.queue.replay() is None


def test_the_record_names_nobody_and_survives_a_line_cut_short(kept, fast_path):
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    path = log_path(kept.root)
    with path.open("a") as file:
        file.write('{"request": "99", "mar')
    kept.forget(ForgetRequest(samples=(ROWS[1].id,)))
    text = path.read_text()
    assert ROWS[0].id not in text and len(text.splitlines()) == 5 and '"99"' not in text
    with restore(kept, fast_path) as again:
        assert again.queue.replay().samples == 2


def test_a_record_of_another_workspace_or_inside_this_one_is_refused(kept, create, fast_path):
    other = create("other")
    with pytest.raises(ConfigError, match="another workspace"):
        other.queue.keep_log(fast_path / "record.jsonl")
    with pytest.raises(ConfigError, match="outside"):
        other.queue.keep_log(other.root / "record.jsonl")
    (fast_path / "noise").write_text(json.dumps([1]) + "\n")
    with pytest.raises(WorkspaceError, match="no record"):
        other.queue.keep_log(fast_path / "noise")


def test_what_cannot_be_recorded_is_not_accepted(kept, fast_path):
    path = log_path(kept.root)
    path.unlink()
    path.mkdir()
    with pytest.raises(WorkspaceError, match="cannot be read: Is a directory"):
        kept.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert requests.count_requests_by_state(kept.context.catalogue) == {}
    assert requests.withheld_ids(kept.context.catalogue) == set()


# A request that fails, or is interrupted


def states(path):
    return [json.loads(line).get("state", "") for line in path.read_text().splitlines()]


def holds(workspace, sample):
    return bool(inventory.known_ids(workspace.context.catalogue, [sample]))


def refuse_commits(workspace):
    """Make every commit of this workspace's catalogue fail, as a disk that is full would."""

    def decide(action, what, *_):
        failing = action == sqlite3.SQLITE_TRANSACTION and what == "COMMIT"
        return sqlite3.SQLITE_DENY if failing else sqlite3.SQLITE_OK

    workspace.context.catalogue._db.set_authorizer(decide)


@pytest.mark.parametrize("through", ["the queue", "a command"])
def test_a_request_that_failed_at_the_commit_is_never_carried_out(kept, fast_path, through):
    wish, path = ForgetRequest(samples=(ROWS[0].id,)), log_path(kept.root)
    refuse_commits(kept)
    with pytest.raises(WorkspaceError):
        kept.queue.submit(Submission(wish)) if through == "the queue" else kept.forget(wish)
    kept.context.catalogue._db.set_authorizer(None)
    assert states(path) == ["", "intended"], "the line came first"
    assert kept.model(), "a prediction is not refused: nobody was told that the request is accepted"
    kept.repair()
    assert states(path) == ["", "intended", "dropped"] and holds(kept, ROWS[0].id)
    assert kept.context.notes[1:] == ["requests of the record that failed, were never confirmed and are dropped: 1"]
    kept.forget(ForgetRequest(samples=(ROWS[1].id,)))
    with restore(kept, fast_path) as again:
        assert again.queue.replay().samples == 1
        assert requests.withheld_ids(again.context.catalogue) == {ROWS[1].id}
        assert holds(again, ROWS[0].id)


def test_a_failed_request_is_not_carried_out_by_a_restored_copy_either(kept, fast_path):
    refuse_commits(kept)
    with pytest.raises(WorkspaceError):
        kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    with restore(kept, fast_path) as again:
        assert again.model() and again.queue.replay() is None and holds(again, ROWS[0].id)


@pytest.mark.parametrize("what", ["forget", "submit", "cancel", "return"])
def test_an_interruption_anywhere_leaves_a_record_that_says_what_the_ledger_says(create, fast_path, what):
    """Before every line of ours around the record, in a copy each; then the next command, and a restored backup."""
    sample, record = ROWS[0].id, fast_path / "record.jsonl"
    wish = ForgetRequest(samples=(sample,))
    with create("base") as base:  # not trained: training would take most of the time
        base.add(embed(ROWS[:4]))
        base.queue.keep_log(record)
        shutil.copytree(base.root, fast_path / "backup")
        if what == "cancel":
            base.queue.submit(Submission(wish))
        elif what == "return":
            base.forget(wish)
    acts = {
        "forget": lambda w: w.forget(wish),
        "submit": lambda w: w.queue.submit(Submission(wish)),
        "cancel": lambda w: w.queue.cancel(1),
        "return": lambda w: w.add(embed([ROWS[0]]), allow_return=True),
    }
    rooms = ("forget/proof/erasure_log.py", "forget/proof/log_file.py", "storage/catalogue.py")
    found, whole, folder, stopped, after = set(), record.read_bytes(), fast_path / "copy", True, 1
    while stopped:
        shutil.copytree(base.root, folder)
        record.write_bytes(whole)
        with Workspace(folder) as workspace:
            stopped = interrupted(after, lambda w=workspace: acts[what](w), rooms)
        with Workspace(folder) as workspace:
            workspace.context.check_log()
            workspace.repair()
            assert workspace.verify().ok, f"interrupted before line {after}"
            events = {event.event for event in ledger.events_after(workspace.context.catalogue, 0, 99)}
        wanted = bool(events & {"received", "accepted"}) and not events & {"cancelled", "returned"}
        shutil.rmtree(folder)
        shutil.copytree(fast_path / "backup", folder)
        with Workspace(folder) as again:
            again.repair()
            assert holds(again, sample) != wanted, f"interrupted before line {after}"
        shutil.rmtree(folder)
        found.add(wanted)
        after += 3
    assert found == {True, False}


# Samples that return, and records of earlier versions


def test_a_sample_that_returned_with_permission_stays_when_a_backup_is_restored(kept, fast_path):
    back, gone = ROWS[0], ROWS[5]
    kept.forget(ForgetRequest(samples=(back.id, gone.id)))
    kept.add(embed([back]), allow_return=True)
    kept.train()
    assert states(log_path(kept.root))[-1] == "returned"
    with restore(kept, fast_path) as again:
        again.repair()
        assert holds(again, back.id) and not holds(again, gone.id)
        again.forget(ForgetRequest(samples=(back.id,)))
    with restore(kept, fast_path) as again:
        again.repair()
        assert not holds(again, back.id), "forgotten after the return"


def unchained(path, kept):
    """Rewrite a record as earlier versions wrote it."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    names = {"intended": lambda line: {"request": line["request"], "marks": line["marks"]},
             "cancelled": lambda line: {"cancels": line["request"]}}  # fmt: skip
    old = [names[line["state"]](line) for line in lines[1:] if line["state"] in names]
    text = "".join(json.dumps(line) + "\n" for line in [{"workspace": kept.context.keys.public}, *old])
    path.write_text(text)


def forget_known_end(root):
    catalogue = Catalogue(root / "catalog.sqlite")
    with catalogue.transaction() as transaction:
        transaction.execute("DELETE FROM state WHERE name = 'record'")
    catalogue.close()


def test_a_record_of_an_earlier_version_is_honoured_and_gets_its_chain(kept, fast_path):
    path = log_path(kept.root)
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    kept.queue.cancel(kept.queue.submit(Submission(ForgetRequest(samples=(ROWS[1].id,)))).number)
    unchained(path, kept)
    kept.close()
    forget_known_end(kept.root)
    forget_known_end(fast_path / "backup")
    with Workspace(kept.root, workers=1) as same:
        assert same.model() and same.verify().ok
        same.forget(ForgetRequest(samples=(ROWS[5].id,)))
        assert "without a chain: its 3 lines were taken over" in " ".join(same.context.notes)
        assert same.verify().ok
    assert states(path) == ["", "accepted", "accepted", "cancelled", "intended", "accepted"]
    with restore(kept, fast_path) as again:
        again.repair()
        assert [holds(again, ROWS[i].id) for i in (0, 1, 5)] == [False, True, False]


def test_a_restored_workspace_honours_a_record_of_an_earlier_version(kept, fast_path):
    path = log_path(kept.root)
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    unchained(path, kept)
    with path.open("a") as file:
        file.write('{"request": "99", "mar\n')
    forget_known_end(fast_path / "backup")
    with restore(kept, fast_path) as again:
        with pytest.raises(WorkspaceError, match=r"1 request .* must be carried out again"):
            again.model()
        again.repair()
        assert not holds(again, ROWS[0].id) and states(path) == ["", "accepted"]
        assert "1 lines could not be read and are lost" in " ".join(again.context.notes)


def test_a_record_without_a_chain_is_refused_where_the_chain_was_known(kept):
    path = log_path(kept.root)
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    unchained(path, kept)
    with pytest.raises(DamagedFile, match="lacks lines that this workspace knows"):
        kept.repair()


# Beginning a record


def test_a_record_covers_what_was_forgotten_and_what_waited_before_it_began(workspace, fast_path):
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    number = workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[5].id,)))).number
    shutil.copytree(workspace.root, fast_path / "backup")
    workspace.queue.keep_log(fast_path / "record.jsonl")
    assert workspace.queue.replay() is None
    workspace.queue.cancel(number)
    assert states(fast_path / "record.jsonl") == ["", "accepted", "accepted", "cancelled"]
    with restore(workspace, fast_path) as again:
        again.queue.cancel(number)
        again.add(embed([ROWS[0]]), allow_return=True)  # a copy that knows of no record lets it return
        again.queue.keep_log(fast_path / "record.jsonl")
        again.repair()
        assert not holds(again, ROWS[0].id) and holds(again, ROWS[5].id)


def test_a_record_can_be_moved_and_goes_on_elsewhere(kept, fast_path):
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    moved = (fast_path / "record.jsonl").rename(fast_path / "moved.jsonl")
    with pytest.raises(DamagedFile, match="is missing"):
        kept.queue.keep_log(fast_path / "record.jsonl")
    kept.queue.keep_log(moved)
    kept.forget(ForgetRequest(samples=(ROWS[1].id,)))
    kept.queue.keep_log(fast_path / "other.jsonl")
    assert states(fast_path / "other.jsonl") == ["", "accepted"], "everything that was forgotten, in one line"
    with restore(kept, fast_path) as again:
        again.queue.keep_log(fast_path / "other.jsonl")
        assert again.queue.replay().samples == 2
