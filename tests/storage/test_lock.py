"""One writer: an OS lock that dies with its process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shardgraph
from shardgraph.errors import DamagedFile, WorkspaceBusy
from shardgraph.storage.files import WriteLock, retry_while_busy
from tests.strategies import interrupted

HOLD = """
import sys
from pathlib import Path
from shardgraph.storage.files import WriteLock
with WriteLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(root):
    """A process that holds the lock."""
    environment = {**os.environ, "PYTHONPATH": str(Path(shardgraph.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_told_that_the_workspace_is_busy(root, holder):
    with pytest.raises(WorkspaceBusy, match=str(root)), WriteLock(root):
        pass
    holder.communicate("")
    with WriteLock(root) as lock:
        assert lock.held


def test_the_lock_dies_with_its_process(root, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with WriteLock(root) as lock:
        assert lock.held


def test_two_objects_of_one_process_exclude_each_other(root):
    with WriteLock(root), pytest.raises(WorkspaceBusy), WriteLock(root):
        pass


def test_the_lock_is_reentrant_within_one_object(root):
    lock = WriteLock(root)
    with lock:
        with lock:
            pass
        assert lock.held
        with pytest.raises(WorkspaceBusy), WriteLock(root):
            pass
    assert not lock.held
    with WriteLock(root):
        pass


def test_an_interruption_while_it_is_taken_or_given_back_does_not_keep_it(root):
    for after in range(1, 100):
        lock = WriteLock(root)

        def take(lock=lock):
            with lock:
                pass

        stopped = interrupted(after, take)
        lock.release()  # as closing the workspace does
        with WriteLock(root):
            pass
        with lock:
            assert lock.held
        if not stopped:
            break
    assert not stopped and after > 10


def test_a_child_process_does_not_inherit_the_lock(root):
    with WriteLock(root):
        command = [sys.executable, "-c", "print(flush=True); input()"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
    try:
        child.stdout.readline()  # it runs
        with WriteLock(root) as lock:
            assert lock.held
    finally:
        child.kill()
        child.communicate()


def test_what_is_busy_is_tried_again_until_the_time_is_up():
    tries = []

    def act():
        tries.append(1)
        if len(tries) < 3:
            raise WorkspaceBusy("not yet")
        return len(tries)

    assert retry_while_busy(act, 60, pause=0) == 3
    with pytest.raises(WorkspaceBusy, match="never"):
        retry_while_busy(lambda: (_ for _ in ()).throw(WorkspaceBusy("never")), 0.05, pause=0.01)


def test_another_error_is_raised_at_once():
    tries = []

    def act():
        tries.append(1)
        raise DamagedFile("torn")

    with pytest.raises(DamagedFile):
        retry_while_busy(act, 60)
    assert tries == [1]
