"""Executors: they turn tasks into files and know nothing else. One file a kind."""

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
