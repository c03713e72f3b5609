"""Which executor a piece of work gets when nobody says, and what can go to a GPU."""

import os
from collections.abc import Sequence

import torch

from shardgraph.errors import ConfigError
from shardgraph.learn.attention import WIDTHS
from shardgraph.learn.executors.base import Executor, GroupTask, task_bytes
from shardgraph.learn.executors.processes import ProcessExecutor
from shardgraph.learn.executors.serial import SerialExecutor
from shardgraph.learn.recipe import Recipe

FEW = 6  # a worker's start costs about as much as training a few small groups
SMALL = 32 << 20  # bytes of samples that are trained here rather than in workers


def best_device() -> str:
    """The GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def on_gpu(dims: tuple[int, int] | None, recipe: Recipe) -> bool:
    """Whether the GPU's kernels cover this recipe; others train on the CPU."""
    covered = recipe.adapter == "inca" and recipe.projection == "identity"
    return covered and dims is not None and dims[0] // recipe.head_count(dims[0]) in WIDTHS


def choose_executor(
    tasks: Sequence[GroupTask], workers: int | None = None, device: str = "cpu", gpu_memory: int | None = None
) -> Executor:
    """The GPU where that is the device; else processes, one per core, for many groups, this process for a few.

    Among executors of one device the bytes are the same.
    """
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError("device 'cuda' was asked for, or built the model, but there is no GPU here")
        from shardgraph.learn.executors.gpu import GpuExecutor  # needs Triton, which only comes with a GPU

        return GpuExecutor(gpu_memory)
    if workers is None:
        here = len(tasks) == 1 or (len(tasks) <= FEW and sum(map(task_bytes, tasks)) <= SMALL)
        workers = 1 if here else os.cpu_count() or 1
    return ProcessExecutor(workers) if workers > 1 else SerialExecutor()
