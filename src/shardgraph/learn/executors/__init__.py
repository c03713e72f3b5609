"""Executors: they train the groups of tasks and write them to files. One module for each kind.

base             GroupTask, GroupResult, Executor, SerialExecutor; choose_executor; how one task is run
processes        ProcessExecutor: worker processes with one thread each
process_worker   the program of such a process
gpu              GpuExecutor: many groups at once on one GPU (needs Triton)
ray              RayExecutor: a Ray cluster; which nodes are fit for the work
"""

from shardgraph.learn.executors.base import (
    Executor,
    GroupResult,
    GroupTask,
    SerialExecutor,
    best_device,
    choose_executor,
    on_gpu,
)
from shardgraph.learn.executors.processes import ProcessExecutor

__all__ = [
    "Executor",
    "GroupResult",
    "GroupTask",
    "ProcessExecutor",
    "SerialExecutor",
    "best_device",
    "choose_executor",
    "on_gpu",
]
