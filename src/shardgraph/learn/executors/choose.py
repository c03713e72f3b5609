"""Which executor a piece of work gets when nobody says."""

import os
from collections.abc import Sequence

from shardgraph.learn.executors.base import Executor, GroupTask
from shardgraph.learn.executors.processes import ProcessExecutor
from shardgraph.learn.executors.serial import SerialExecutor

FEW = 6  # a worker's start costs about as much as training a few groups


def choose_executor(tasks: Sequence[GroupTask], workers: int | None) -> Executor:
    """Processes, one per core, for many groups; this process for a few. The bytes are the same."""
    if workers is None:
        workers = 1 if len(tasks) <= FEW else os.cpu_count() or 1
    return ProcessExecutor(workers) if workers > 1 else SerialExecutor()
