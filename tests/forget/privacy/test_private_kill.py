"""kill -9 while private edges are charged: whatever the moment, a removal is charged once, a build before it begins."""

import json
import subprocess
import sys

import pytest

from tests.forget.erase.test_kill import HOUSE, environment
from tests.forget.privacy.test_private_edges import request_for

GONE = request_for("ann", 2).samples


@pytest.fixture
def closed(private):
    """A workspace with private edges, closed."""
    workspace = private(name="base")
    workspace.close()
    return workspace


def killed(workspace, folder, **order):
    """What is left after the forget was killed, at each of some moments, and then asked for again."""
    order = {"act": "forget", "gone": list(GONE), "seed": 0, "private": True, **order}
    done = subprocess.run(
        [sys.executable, "-m", "tests.forget.killed", str(workspace.root), str(folder)],
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        env=environment(),
        cwd=HOUSE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)["results"]


def check(jobs):
    for i, job in enumerate(jobs):
        releases = job["charges"]["releases"]
        builds = {name: len(each) for name, each in releases["builds"].items()}
        assert releases["removals"] == [{"count": 2, "groups": ["bob", "web"]}], f"job {i}"
        assert builds["ann"] >= 2 and builds["bob"] == builds["web"] == 1, f"job {i}"
        assert builds["ann"] <= 2 + len(job["killed"]), f"job {i} was charged for more than it began"
        assert job["verification"]["ok"] and job["events"] == ["forget"], f"job {i}"
        assert (job["traces"], job["left"]) == ([], []), f"job {i}"


def test_killed_at_lines_spread_over_a_forget(closed, fast_path):
    jobs = killed(closed, fast_path, how="line", count=16)
    assert all(job["killed"] == [True] for job in jobs)
    assert {job["resumed"] for job in jobs} == {0, 1}, "some were finished, some had not begun"
    check(jobs)


@pytest.mark.slow
def test_killed_at_many_lines_and_again_while_it_recovers(closed, fast_path):
    check(killed(closed, fast_path, how="line", count=120, again=1))


@pytest.mark.slow
def test_killed_at_random_moments(closed, fast_path):
    check(killed(closed, fast_path, how="delay", count=40))
