"""Tasks and executors: a group to train as plain data, the one way to train it, and the executor to use.

GroupTask          which files to read, how to train, where to write
Executor           runs tasks; SerialExecutor in this process, the others in modules of their own
choose_executor    the executor for some tasks, unless the caller names one
run_task           trains one task in this process: load_task, train_task, write_result
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from shardgraph.cluster import staging
from shardgraph.digest import digest
from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError
from shardgraph.learn.group import train_group
from shardgraph.learn.inca import WIDTHS
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training.private_group import train_private_group
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.files import read_file
from shardgraph.storage.samples import Samples, concatenate, unpack_samples

FEW = 6  # starting a worker costs about as much as training a few small groups
SMALL = 32 << 20  # bytes of samples that are trained in this process rather than in workers
Trained = tuple[bytes, int, int]
"""The file of a trained group, its number of samples and its number of adapters: the arguments of `write_result`."""


@dataclass(frozen=True)
class GroupTask:
    """Train a group on the shard files of its neighbourhood (path, digest) and write it to `output`.

    members   the shards whose classes get adapters
    others    other shards that it learns from directly
    private   shards that it learns from over private edges only, by the private recipe `privacy`
    """

    name: str
    members: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]
    recipe: dict[str, Any]
    seed: int
    output: str
    private: tuple[tuple[str, str], ...] = ()
    privacy: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The task as a plain dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "GroupTask":
        """The task that `to_json` wrote."""
        parts = ("members", "others", "private")
        files = {part: tuple((path, digest) for path, digest in value[part]) for part in parts}
        return cls(**{**value, **files})


@dataclass(frozen=True)
class GroupResult:
    """A trained group, whose file is written and synced at the task's output."""

    name: str
    digest: str
    samples: int
    adapters: int


class Executor(Protocol):
    """Runs tasks; which executor runs them, in which order and beside which others, does not change the bytes."""

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, in the order in which tasks finish."""
        ...


class SerialExecutor:
    """Runs tasks in this process, one after the other."""

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, in the order of the tasks."""
        return (run_task(task) for task in tasks)


def choose_executor(
    tasks: Sequence[GroupTask], workers: int | None = None, device: str = "cpu", gpu_memory: int | None = None
) -> Executor:
    """The executor for a device: the GPU; or on the CPU one process per core, or this process for few small groups.

    All executors of one device give the same bytes.
    """
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError("device 'cuda' was asked for, or built the model, but there is no GPU here")
        from shardgraph.learn.executors.gpu import GpuExecutor  # needs Triton, which only comes with a GPU

        return GpuExecutor(gpu_memory)
    if workers is None:
        here = len(tasks) == 1 or (len(tasks) <= FEW and sum(map(task_bytes, tasks)) <= SMALL)
        workers = 1 if here else os.cpu_count() or 1
    if workers <= 1:
        return SerialExecutor()
    from shardgraph.learn.executors.processes import ProcessExecutor  # a cycle: it needs the tasks above

    return ProcessExecutor(workers)


def best_device() -> str:
    """The device to train on by default: the GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def on_gpu(dims: tuple[int, int] | None, recipe: Recipe) -> bool:
    """Whether the GPU kernels support this recipe; other recipes train on the CPU."""
    covered = recipe.adapter == "inca" and recipe.projection == "identity"
    return covered and dims is not None and dims[0] // recipe.head_count(dims[0]) in WIDTHS


def run_task(task: GroupTask) -> GroupResult:
    """Train one group in this process and write its file."""
    return write_result(task, *train_task(task))


def load_task(task: GroupTask) -> tuple[Samples, tuple[str, ...]]:
    """The samples of the task's whole neighbourhood in canonical order, and the classes of its members."""
    members = [_load(path, expected) for path, expected in task.members]
    others = [_load(path, expected) for path, expected in task.others]
    classes = tuple(sorted({label for part in members for label in part.labels}))
    parts = members + others
    return (parts[0] if len(parts) == 1 else concatenate(parts)).canonical(), classes


def train_task(task: GroupTask) -> Trained:
    """Train one group in this process, without writing it."""
    if task.privacy is not None:
        return _train_private(task, PrivateRecipe.from_json(task.privacy))
    samples, classes = load_task(task)
    adapters = train_group(task.name, samples, classes, Recipe.from_json(task.recipe), task.seed)
    return adapters.to_bytes(), len(samples), len(classes)


def write_result(task: GroupTask, raw: bytes, samples: int, adapters: int) -> GroupResult:
    """Write the bytes of a trained group to the task's output and sync them.

    The file must exist already. A worker that outlives its command may have learned from samples that are forgotten by
    now; recovery deleted its file, and it must not create a new one.
    """
    try:
        with Path(task.output).open("r+b") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        raise WorkspaceError(f"the place for group {task.name} is gone: its command has ended") from None
    return GroupResult(task.name, digest(raw), samples, adapters)


def task_bytes(task: GroupTask) -> int:
    """The size of the files that a task reads, in bytes."""
    return sum(_size(path) for path, _ in task.members + task.others + task.private)


def waves(tasks: Sequence[GroupTask], memory: int) -> Iterator[list[GroupTask]]:
    """The tasks in order, in lists whose files take at most `memory` bytes together, or that hold one task."""
    wave: list[GroupTask] = []
    used = 0
    for task in tasks:
        size = task_bytes(task)
        if wave and used + size > memory:
            yield wave
            wave, used = [], 0
        wave.append(task)
        used += size
    if wave:
        yield wave


def _train_private(task: GroupTask, privacy: PrivateRecipe) -> Trained:
    """Train a group that has private edges; its one shard owns all of its adapters."""
    from shardgraph.learn.private.training.secure import SecureNoise  # needs cryptography, unlike other trainings

    direct, classes = load_task(task)
    others = concatenate(_load(path, expected) for path, expected in task.private)
    own = np.tile(np.arange(len(direct) + len(others)) < len(direct), (len(classes), 1))
    adapters = train_private_group(
        task.name,
        concatenate([direct, others]),
        classes,
        own,
        ~own,
        Recipe.from_json(task.recipe),
        task.seed,
        privacy,
        SecureNoise(),
        [task.name] * len(classes),
    )
    return adapters.to_bytes(), adapters.samples, len(classes)


def _load(path: str, expected: str) -> Samples:
    raw = staging.fetch(path) if _is_remote(path) else read_file(Path(path))
    if digest(raw) != expected:
        raise DamagedFile(f"{path} is torn or was changed: restore it from a backup")
    return unpack_samples(raw)


def _size(path: str) -> int:
    return staging.size_of(path) if _is_remote(path) else Path(path).stat().st_size


def _is_remote(path: str) -> bool:
    """Whether a path is a URL; a local path never holds "://", because `Path` folds its slashes."""
    return "://" in path
