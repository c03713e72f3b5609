"""Executors: they turn tasks into files and know nothing else. One file a kind."""

from shardgraph.learn.executors.base import Executor, GroupResult, GroupTask
from shardgraph.learn.executors.choose import choose_executor
from shardgraph.learn.executors.processes import ProcessExecutor
from shardgraph.learn.executors.serial import SerialExecutor

__all__ = ["Executor", "GroupResult", "GroupTask", "ProcessExecutor", "SerialExecutor", "choose_executor"]
