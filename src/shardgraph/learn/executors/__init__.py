"""Executors: they turn tasks into files and know nothing else. One file a kind."""

from shardgraph.learn.executors.base import Executor, GroupResult, GroupTask
from shardgraph.learn.executors.choose import best_device, choose_executor, on_gpu
from shardgraph.learn.executors.processes import ProcessExecutor
from shardgraph.learn.executors.serial import SerialExecutor

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
