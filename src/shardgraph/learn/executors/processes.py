"""ProcessExecutor: groups in worker processes with one thread each.

A worker is a fresh interpreter that reads tasks and writes results as lines of JSON: nothing is forked after torch is
loaded, and a caller's script needs no `if __name__ == "__main__"`. A worker whose parent ended ends at once; its
unfinished file is in the scratch folder, which recovery empties.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import IO

import shardgraph.errors
from shardgraph.errors import WorkspaceError
from shardgraph.learn.executors.base import GroupResult, GroupTask, task_bytes


class ProcessExecutor:
    """Runs tasks in `workers` spawned processes."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, in the order in which tasks finish; the workers end after the last one or the first error."""
        largest_first = sorted(tasks, key=task_bytes, reverse=True)
        workers = [_Worker() for _ in range(min(self.workers, len(tasks)))]
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def work(task: GroupTask) -> GroupResult:
            worker = idle.get()
            try:
                return worker.train(task)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(max(1, len(workers)))
        try:
            for future in as_completed([pool.submit(work, task) for task in largest_first]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.stop()
            pool.shutdown()


class _Worker:
    """One worker process."""

    def __init__(self) -> None:
        paths = os.pathsep.join(p for p in sys.path if p)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shardgraph.learn.executors.process_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **threads, "PYTHONPATH": paths},
            text=True,
            start_new_session=True,  # Ctrl-C is handled by the parent
        )

    def train(self, task: GroupTask) -> GroupResult:
        """Send a task and wait for its result."""
        stdin, stdout = _pipe(self._process.stdin), _pipe(self._process.stdout)
        try:
            stdin.write(json.dumps(task.to_json()) + "\n")
            stdin.flush()
            line = stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            raise WorkspaceError(f"a worker process ended while it trained {task.name}; run the command again")
        reply = json.loads(line)
        if "error" in reply:
            kind = getattr(shardgraph.errors, reply["kind"], WorkspaceError)
            raise kind(reply["error"])
        return GroupResult(**reply)

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            _pipe(pipe).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
