"""kill -9 in the middle of a command: the next one finishes it, and the bytes are those of an undisturbed life."""

import json
import os
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

import shardgraph
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.learn.recipe import Recipe
from tests.strategies import FEW_ROWS as ROWS
from tests.strategies import RING, embed, many, never_saw

HOUSE = Path(__file__).parents[3]
LATE = [row._replace(id=f"latecomer-{i}") for i, row in enumerate(many(6))]
GONE = [ROWS[0].id, ROWS[5].id, ROWS[17].id]


def environment():
    return {**os.environ, "PYTHONPATH": f"{Path(shardgraph.__file__).parents[1]}{os.pathsep}{HOUSE}"}


def prepared(trained, act):
    """A workspace in which the act is next, closed."""
    with trained(RING, ROWS, "base") as workspace:
        if act == "train":
            workspace.add(embed(LATE))
        if act == "repair":
            workspace.forget(ForgetRequest(samples=tuple(GONE)), instant=True)
    return workspace


def kill_and_finish(base, folder, **order):
    """Let `killed.py` do it, and check every job against a workspace that never saw them."""
    order = {"gone": GONE, "seed": 0, **order}
    done = subprocess.run(
        [sys.executable, "-m", "tests.forget.killed", str(base.root), str(folder)],
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        env=environment(),
        cwd=HOUSE,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    kept = [row for row in ROWS + (LATE if order["act"] == "train" else []) if row.id not in GONE]
    never = never_saw(base, kept, folder / "never")
    expected = {name: sha256(raw).hexdigest() for name, raw in never.items()}
    for i, job in enumerate(answer["results"]):
        assert job["promised"] == expected, f"job {i}"
        assert job["verification"]["ok"], f"job {i}: {job['verification']}"
        assert (job["traces"], job["left"]) == ([], []), f"job {i}"
        assert job["certificates"] == len(job["events"]), f"job {i}"
        assert job["known"] in (0, len(GONE)), f"job {i} is half-forgotten"
    return answer["results"]


EVENTS = {
    "forget": [["forget"]],
    "instant": [["instant", "repair"], ["forget"]],  # the other if it was killed before it was accepted
    "train": [["forget"]],
    "repair": [["instant", "repair"]],
}


@pytest.mark.parametrize("act", EVENTS)
def test_killed_at_lines_spread_over_the_command(trained, fast_path, act):
    results = kill_and_finish(prepared(trained, act), fast_path, act=act, how="line", count=16)
    assert all(job["killed"] == [True] for job in results)
    assert all(job["events"] in EVENTS[act] for job in results)
    if act == "forget":
        assert {job["resumed"] for job in results} == {0, 1}, "some were finished, some had not begun"


def test_a_killed_rebuild_says_which_command_mends_the_groups_of_a_right(trained, fast_path):
    with trained(RING, ROWS, "base") as workspace:
        workspace.consumers.grant("carol", sources=["ann", "bob"])
        assert workspace.consumers.provision("carol") > 0
    results = kill_and_finish(workspace, fast_path, act="rebuild", how="line", count=16)
    assert all(job["killed"] == [True] for job in results)
    said = [text for job in results for text in job["said"]]
    assert [text for text in said if "rights" in text], "some were killed before the groups of the right were built"
    assert all("`shardgraph train` builds it again" in text and "backup" not in text for text in said), said


@pytest.mark.slow
def test_killed_at_fifty_random_moments_of_a_forget(trained, fast_path):
    results = kill_and_finish(prepared(trained, "forget"), fast_path, act="forget", how="delay", count=50)
    assert sum(job["killed"] == [True] for job in results) > 25  # one that comes too late tells nothing
    assert all(job["events"] == ["forget"] for job in results), "exactly one certificate, whatever happened"
    assert sum(job["resumed"] for job in results) > 10


@pytest.mark.slow
@pytest.mark.parametrize("act", EVENTS)
def test_killed_at_many_lines_of_the_command(trained, fast_path, act):
    results = kill_and_finish(prepared(trained, act), fast_path, act=act, how="line", count=150)
    assert all(job["killed"] == [True] for job in results)
    assert all(job["events"] in EVENTS[act] for job in results)


@pytest.mark.slow
def test_killed_and_killed_again_while_the_next_command_finishes_it(trained, fast_path):
    results = kill_and_finish(prepared(trained, "forget"), fast_path, act="forget", how="line", count=100, again=2)
    assert sum(job["killed"] == [True, True, True] for job in results) > 5
    assert all(job["events"] == ["forget"] for job in results)


TRAIN = """
import sys
from shardgraph.forget.workspace import Workspace
with Workspace(sys.argv[1], workers=2, progress=lambda *step: print(*step, flush=True)) as workspace:
    workspace.train()
"""


@pytest.mark.slow
def test_workers_that_outlive_a_killed_training_leave_nothing_of_what_was_forgotten_meanwhile(trained, tmp_path):
    """The parent is killed while its workers learn; a sample is forgotten before they are done."""
    slow = Recipe(epochs=600, batch=4)
    workspace = trained(BySource(), ROWS, recipe=slow)
    workspace.add(embed(LATE))
    workspace.close()
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(workspace.root)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    while "training" not in process.stdout.readline():
        pass
    time.sleep(3.5)  # the workers have started and learn
    scratch = workspace.root / "scratch"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with Workspace(workspace.root, workers=1) as again:
        again.forget(ForgetRequest(samples=tuple(GONE)), instant=True)
        assert again.verify().ok
    time.sleep(8)  # whatever the workers still do
    assert list(scratch.iterdir()) == []
