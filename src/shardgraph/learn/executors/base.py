"""A group to train as a task that can travel, and the one way to do it.

Which executor a piece of work gets when nobody says, and what can go to a GPU.

One group after the other, in this process.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from shardgraph.cluster.staging import fetch, is_remote, size_of
from shardgraph.digest import digest
from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError
from shardgraph.learn.group import train_group
from shardgraph.learn.inca import WIDTHS
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training.private_group import train_private_group
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.files import read_file
from shardgraph.storage.samples import Samples, concatenate, unpack_samples


@dataclass(frozen=True)
class GroupTask:
    """Train a group on the shard files of its neighbourhood (path, digest) and write it to `output`.

    `members` are the shards whose classes get adapters; `others` are those it may learn from besides. With private
    edges, `private` are those it may learn from in no way but by the private recipe `privacy`.
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
    """A group that was trained and lies, synced, at the task's output."""

    name: str
    digest: str
    samples: int
    adapters: int


Trained = tuple[bytes, int, int]
"""A group's file, the samples it saw, its adapters: what `write_result` takes."""


class Executor(Protocol):
    """Runs tasks anywhere, in any order and company, with the same bytes."""

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, as they come."""
        ...


def task_bytes(task: GroupTask) -> int:
    """How many bytes of samples a task reads."""
    return sum(size_of(path) for path, _ in task.members + task.others + task.private)


def waves(tasks: Sequence[GroupTask], memory: int) -> Iterator[list[GroupTask]]:
    """The tasks in order, cut so that a wave's files take at most `memory` bytes, or are one task's."""
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


def load_task(task: GroupTask) -> tuple[Samples, tuple[str, ...]]:
    """The samples of the task's whole neighbourhood in canonical order, and the classes of its members."""
    members = [_load(path, expected) for path, expected in task.members]
    others = [_load(path, expected) for path, expected in task.others]
    classes = tuple(sorted({label for part in members for label in part.labels}))
    parts = members + others
    return (parts[0] if len(parts) == 1 else concatenate(parts)).canonical(), classes


def train_task(task: GroupTask) -> Trained:
    """Train one group in this process; nothing is written."""
    if task.privacy is not None:
        return _train_private(task, PrivateRecipe.from_json(task.privacy))
    samples, classes = load_task(task)
    adapters = train_group(task.name, samples, classes, Recipe.from_json(task.recipe), task.seed)
    return adapters.to_bytes(), len(samples), len(classes)


def run_task(task: GroupTask) -> GroupResult:
    """Train one group in this process and write its file."""
    return write_result(task, *train_task(task))


def _train_private(task: GroupTask, privacy: PrivateRecipe) -> Trained:
    """Train a group that has private edges; its shard is one owner of all its adapters."""
    from shardgraph.learn.private.training.secure import SecureNoise  # cryptography, which no other training needs

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


def write_result(task: GroupTask, raw: bytes, samples: int, adapters: int) -> GroupResult:
    """Write a trained group's bytes to the task's output, synced, and say what they are.

    The file must be there. A worker that outlives its command may have learned from what is forgotten by now;
    its file was swept away, and it must not make a new one.
    """
    try:
        with Path(task.output).open("r+b") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        raise WorkspaceError(f"the place for group {task.name} is gone: its command has ended") from None
    return GroupResult(task.name, digest(raw), samples, adapters)


def _load(path: str, expected: str) -> Samples:
    raw = fetch(path) if is_remote(path) else read_file(Path(path))
    if digest(raw) != expected:
        raise DamagedFile(f"{path} is torn or was changed: restore it from a backup")
    return unpack_samples(raw)


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
    if workers <= 1:
        return SerialExecutor()
    from shardgraph.learn.executors.processes import ProcessExecutor  # which needs the tasks above

    return ProcessExecutor(workers)


class SerialExecutor:
    """Runs tasks here, in order."""

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, one by one."""
        return (run_task(task) for task in tasks)
