"""Ctrl-C at any moment: nothing lost, nothing half-forgotten, and the bytes of an undisturbed run in the end."""

import os
import shutil
from itertools import count

import pytest

from shardgraph.errors import DamagedFile
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, BilevelAcross, BySource
from shardgraph.storage.tables import inventory
from tests.strategies import FEW_ROWS as ROWS
from tests.strategies import (
    LABELS,
    QUICK,
    RING,
    all_bytes,
    embed,
    interrupted,
    many,
    never_saw,
    promised_files,
)

GONE = [ROWS[0].id, ROWS[5].id, ROWS[17].id]
KEPT = [row for row in ROWS if row.id not in GONE]
STEP = 61  # of the thousands of lines that the rooms execute, a different few for every test below


@pytest.fixture
def base(trained):
    """A trained workspace to copy, closed."""
    workspace = trained(RING, ROWS, "base")
    workspace.close()
    return workspace


def copies(base, folder, first=1, step=STEP):
    """Copies of a workspace, one for each line to stop at; the last one was not stopped."""
    for after in count(first, step):
        root = folder / f"copy{after}"
        shutil.copytree(base.root, root)
        with Workspace(root, workers=1) as workspace:
            yield after, workspace
        shutil.rmtree(root)


def test_a_forget_interrupted_anywhere_is_finished_by_the_next_command(base, fast_path):
    expected, finished, refused = never_saw(base, KEPT, fast_path / "never"), 0, 0
    for after, workspace in copies(base, fast_path):
        stopped = interrupted(after, lambda w=workspace: w.forget(ForgetRequest(samples=tuple(GONE))))
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            certificates = again.resume()
            if inventory.known_ids(again.context.catalogue, GONE):  # stopped before it was accepted: nothing happened
                assert len(inventory.known_ids(again.context.catalogue, GONE)) == 3 and certificates == []
                assert again.certificates.last() == 0
                again.forget(ForgetRequest(samples=tuple(GONE)))
                refused += 1
            else:
                finished += len(certificates)
            assert promised_files(again.root) == expected, f"interrupted before line {after}"
            assert again.certificates.last() == 1
            verification = again.verify()
            assert verification.ok, verification
            assert traces(again.root, GONE) == []
        if not stopped:
            break
    assert finished > 10 and refused > 3


def traces(root, ids):
    """Files that still hold one of these ids, and leftovers."""
    found = [name for name, raw in all_bytes(root).items() if any(i.encode() in raw for i in ids)]
    return found + [str(path) for path in (root / "scratch").iterdir()]


def test_the_same_open_workspace_goes_on_after_an_interruption(base, fast_path):
    expected = never_saw(base, KEPT, fast_path / "never")
    for after, workspace in copies(base, fast_path, first=7, step=3 * STEP):
        stopped = interrupted(after, lambda w=workspace: w.forget(ForgetRequest(samples=tuple(GONE))))
        workspace.context.lock.release()  # in case the Ctrl-C fell between taking the lock and noting it
        workspace.forget(ForgetRequest(samples=tuple(GONE)))
        assert promised_files(workspace.root) == expected, f"interrupted before line {after}"
        if not stopped:
            break


def test_an_instant_forget_interrupted_anywhere_serves_nothing_that_saw_the_sample(base, fast_path):
    expected = never_saw(base, KEPT, fast_path / "never")
    for after, workspace in copies(base, fast_path, first=11, step=2 * STEP):
        request = ForgetRequest(samples=tuple(GONE))
        stopped = interrupted(after, lambda w=workspace, r=request: w.forget(r, instant=True))
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            again.resume()
            if inventory.known_ids(again.context.catalogue, GONE):
                again.forget(request, instant=True)
            assert again.status()["groups"]["missing"] == 3  # everyone in the ring read from somebody's shard
            assert traces(again.root, GONE) == []
            again.repair()
            assert promised_files(again.root) == expected, f"interrupted before line {after}"
        if not stopped:
            break


def test_a_repair_interrupted_anywhere_can_be_repeated(base, fast_path):
    expected = never_saw(base, KEPT, fast_path / "never")
    with Workspace(base.root, workers=1) as workspace:
        workspace.forget(ForgetRequest(samples=tuple(GONE)), instant=True)
    for after, workspace in copies(base, fast_path, first=5):
        stopped = interrupted(after, workspace.repair)
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            again.resume()
            again.repair()
            assert promised_files(again.root) == expected, f"interrupted before line {after}"
            verification = again.verify()
            assert verification.ok, verification
        if not stopped:
            break


@pytest.mark.parametrize("then", ["train", "forget"])
def test_a_first_training_interrupted_anywhere_loses_nothing_and_keeps_nothing(create, fast_path, then):
    """Then it is done again; or a sample that may lie half-placed is forgotten first."""
    with create("base", classes=LABELS) as base:
        base.add(embed(ROWS))
    topology, kept = Bilevel(2, 2), KEPT if then == "forget" else ROWS
    expected = None
    for after, workspace in copies(base, fast_path, first=3, step=2 * STEP):
        stopped = interrupted(after, lambda w=workspace: w.train(topology, QUICK))
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            again.resume()
            if then == "forget":
                again.forget(ForgetRequest(samples=tuple(GONE)))
                assert traces(again.root, GONE) == [], f"interrupted before line {after}"
            again.train(topology, QUICK)
            expected = expected or never_saw(again, kept, fast_path / "never")
            assert promised_files(again.root) == expected, f"interrupted before line {after}"
            assert not list((again.root / "inbox").iterdir())
            verification = again.verify(full=True)
            assert verification.ok, verification
        if not stopped:
            break


@pytest.mark.parametrize("instant", [False, True], ids=["at once", "instant"])
@pytest.mark.parametrize("topology", [RING, BySource()], ids=["all groups saw them", "one group saw them"])
def test_a_later_training_interrupted_anywhere_and_a_forget_right_after_it(create, fast_path, topology, instant):
    """New samples are half-placed and half-learned when old ones and a new one of one source are forgotten."""
    late = [row._replace(id=f"latecomer-{i}") for i, row in enumerate(many(6))]
    gone = [row.id for row in (ROWS[0], ROWS[6], late[1])]
    assert {row.source for row in ROWS + late if row.id in gone} == {"ann"}
    with create("base", classes=LABELS) as base:
        base.add(embed(ROWS))
        base.train(topology, QUICK)
        base.add(embed(late))
    expected = never_saw(base, [row for row in ROWS + late if row.id not in gone], fast_path / "never")
    for after, workspace in copies(base, fast_path, first=2, step=5 * STEP):
        stopped = interrupted(after, workspace.train)
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            certificate = again.forget(ForgetRequest(samples=tuple(gone)), instant=instant)
            assert traces(again.root, gone) == [], f"interrupted before line {after}"
            verification = again.verify(full=True)
            assert verification.ok, f"interrupted before line {after}: {verification}"
            assert certificate.missing == again.status()["groups"]["missing"]
            again.train()
            again.repair()
            assert promised_files(again.root) == expected, f"interrupted before line {after}"
        if not stopped:
            break


def test_adapters_that_saw_the_sample_are_destroyed_also_when_their_group_has_another_name_by_now(trained, fast_path):
    """ann's samples came later; the clique is called after her, while bob's adapters lie there under his name."""

    def progress(what, done, of):
        if what == "placing" and done == of and armed:
            raise KeyboardInterrupt

    armed = []
    workspace = trained(BilevelAcross(1, 1), many(8, sources=["bob"]), progress=progress)
    (path,) = (workspace.root / "models").rglob("*.safetensors")
    os.link(path, fast_path / "witness")
    workspace.add(embed([row._replace(id=f"hers {row.id}") for row in many(8, sources=["ann"])]))
    armed.append(True)
    with pytest.raises(KeyboardInterrupt):
        workspace.train()
    certificate = workspace.forget(ForgetRequest(samples=(many(8)[0].id,)), instant=True)
    assert certificate.missing == 1
    assert set((fast_path / "witness").read_bytes()) == {0}
    assert list((workspace.root / "models").rglob("*.safetensors")) == []


def test_an_addition_interrupted_anywhere_is_whole_or_leaves_no_byte(create, fast_path):
    base, found = create("base"), set()
    base.close()
    for after, workspace in copies(base, fast_path, first=1, step=7):
        stopped = interrupted(after, lambda w=workspace: w.add(embed(ROWS)))
        workspace.close()
        with Workspace(workspace.root) as again:
            again.verify()  # any command
            found.add(len(inventory.known_ids(again.context.catalogue, (row.id for row in ROWS))))
            if not inventory.count_samples(again.context.catalogue):
                assert traces(again.root, [row.id for row in ROWS]) == []
        if not stopped:
            break
    assert found == {0, len(ROWS)}


@pytest.mark.parametrize("when", ["placing", "training"])
def test_a_training_interrupted_between_steps_goes_on_where_it_was(create, when):
    """Through the progress callback; groups that were finished are not trained again."""
    steps = []

    def progress(what, done, of):
        steps.append((what, done, of))
        if len(stops) and (what, done) == stops[0]:
            stops.pop()
            raise KeyboardInterrupt

    stops = [(when, 2)]
    workspace = create(classes=LABELS, progress=progress)
    workspace.add(embed(many(24)))
    with pytest.raises(KeyboardInterrupt):
        workspace.train(BySource(), QUICK)
    stopped_at, steps = steps[-1], steps[:0]
    assert stopped_at[:2] == (when, 2)
    workspace.train(BySource(), QUICK)
    assert ("training", 0, 3 if when == "placing" else 1) in steps
    assert workspace.verify(full=True).ok


def test_a_training_that_fails_again_ends_its_request_as_an_instant_one_and_blocks_nobody(trained):
    def stop(what, done, of):
        if what == "training":
            raise KeyboardInterrupt

    workspace = trained(BySource(safe=("ann",)), ROWS)
    workspace.close()
    mine = {source: [row.id for row in ROWS[:16] if row.source == source] for source in ("ann", "bob", "web")}
    with Workspace(workspace.root, workers=1, progress=stop) as again, pytest.raises(KeyboardInterrupt):
        again.forget(ForgetRequest(samples=(mine["bob"][0],)))
    path = workspace.context.store.path("shard:ann")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with Workspace(workspace.root, workers=1) as again:
        (certificate,) = again.resume()
        assert (certificate.event, certificate.missing) == ("instant", 1)
        assert again.status()["groups"] == {"serving": 2, "missing": 1}
        with pytest.raises(DamagedFile, match=path.name):
            again.repair()
        again.forget(ForgetRequest(samples=(mine["web"][0],)), instant=True)
        assert again.forget(ForgetRequest(sources=("ann",))).event == "forget", "what was damaged can leave, too"
        assert again.verify(full=True).ok


def test_a_request_of_the_queue_that_ends_so_says_why_and_names_nobody(trained):
    def stop(what, done, of):
        if what == "training":
            raise KeyboardInterrupt

    workspace = trained(BySource(safe=("ann",)), ROWS)
    workspace.close()
    mine = next(row.id for row in ROWS if row.source == "bob")
    with Workspace(workspace.root, workers=1, progress=stop) as again:
        number = again.queue.submit(Submission(ForgetRequest(samples=(mine,)))).number
        again.queue.withhold()
        with pytest.raises(KeyboardInterrupt):
            again.queue.carry_out()
    path = workspace.context.store.path("shard:ann")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with Workspace(workspace.root, workers=1) as again:
        again.resume()
        entry = again.queue.find(number)
        assert entry.state == "failed" and "could not be rebuilt: a file that it needs is torn" in entry.failure
        assert "ann" not in entry.failure and "shardgraph repair" in entry.failure
