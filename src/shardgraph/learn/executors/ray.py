"""RayExecutor: groups as calls to a Ray cluster. A node reads the shard files and returns the adapters as bytes.

Only this process writes to the workspace, so that a worker that was wrongly taken for lost cannot change it. A node
with other numerics would give other bytes, so it gets no work.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from shardgraph.cluster.cluster import Cluster, Unfit
from shardgraph.cluster.staging import Staging, is_remote
from shardgraph.errors import ConfigError, FingerprintError, WorkspaceError
from shardgraph.learn.executors.base import (
    GroupResult,
    GroupTask,
    Trained,
    run_task,
    task_bytes,
    train_task,
    waves,
    write_result,
)
from shardgraph.learn.numerics import Numerics, difference, fingerprint

WORKING_SET = 6  # memory of a task, in sizes of its files: as read, in float32, projected, and the products of a batch
GPU_WAVE = 8 << 30  # bytes of files that go to a GPU in one call, at most


class RayExecutor:
    """Runs tasks on the nodes of a cluster with these numerics; files go through `storage`, if it is given."""

    def __init__(
        self,
        cluster: Cluster,
        numerics: Numerics,
        *,
        storage: Staging | None = None,
        gpu_memory: int | None = None,
    ) -> None:
        self.cluster, self.numerics, self.storage, self.gpu_memory = cluster, numerics, storage, gpu_memory

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, in the order in which calls finish; leaving early, or an error, cancels the other calls.

        Groups with private edges are trained in this process: a call that the cluster repeats would be a release that
        the privacy accounting does not know of.
        """
        yield from (run_task(task) for task in tasks if task.privacy is not None)
        tasks = [task for task in tasks if task.privacy is None]
        if not tasks:
            return
        gpus = int(self.numerics["kind"] == "cuda")
        sizes = {task.name: task_bytes(task) for task in tasks}
        work = partial(train_wave, self.numerics, self.gpu_memory)
        staging: AbstractContextManager[Staging | None] = self.storage or nullcontext()
        with staging as storage:
            calls = (tuple(_staged(task, storage) for task in wave) for wave in self._waves(tasks, sizes))
            results = self.cluster.run(
                work, calls, gpus=gpus, memory=lambda wave: WORKING_SET * max(sizes[task.name] for task in wave)
            )
            with closing(results):
                for wave, trained in results:
                    for task, one in zip(wave, trained, strict=True):
                        yield write_result(task, *one)

    def _waves(self, tasks: Sequence[GroupTask], sizes: dict[str, int]) -> Iterator[list[GroupTask]]:
        """One group for each call, the largest first; on GPUs, which train many at once, two calls for each GPU."""
        largest_first = sorted(tasks, key=lambda task: sizes[task.name], reverse=True)
        if self.numerics["kind"] == "cpu":
            return ([task] for task in largest_first)
        share = sum(sizes.values()) // (2 * max(1, self.cluster.slots("GPU"))) + 1
        return waves(largest_first, min(share, self.gpu_memory or GPU_WAVE))


def train_wave(wanted: Numerics, gpu_memory: int | None, wave: Sequence[GroupTask]) -> list[Trained] | Unfit:
    """Train groups in this process of a node, if the node has the wanted numerics and can read the files."""
    if unfit := check_numerics(wanted) or _check_files(wave):
        return unfit
    if wanted["kind"] == "cpu":
        return [train_task(task) for task in wave]
    from shardgraph.learn.executors.gpu import GpuExecutor  # needs Triton, which only comes with a GPU

    return [trained for _, trained in GpuExecutor(gpu_memory).train(wave)]


def check_numerics(wanted: Numerics) -> Unfit | None:
    """The reason why this process cannot give the bytes of the wanted numerics, if there is one."""
    device = wanted["kind"]
    if device == "cuda" and not torch.cuda.is_available():
        return Unfit(FingerprintError("its GPU is not one that torch can use"))
    found = fingerprint(device)
    if found == wanted:
        return None
    return Unfit(FingerprintError(f"its numerics are others: {difference(found, wanted, 'there')}"))


def cluster_device(cluster: Cluster) -> str:
    """The default device of a cluster: its GPUs, if it has any."""
    return "cuda" if cluster.slots("GPU") else "cpu"


def cluster_numerics(cluster: Cluster, device: str, built: Numerics) -> Numerics:
    """The numerics to work with: those of the built model, if a node has them; else this machine's, if a node has them;
    else those that most nodes have."""
    own = fingerprint(device) if device == "cpu" or torch.cuda.is_available() else None
    if own is not None and cluster.own:
        return own
    found = list(cluster.run_everywhere(partial(fingerprint, device), "GPU" if device == "cuda" else "CPU").values())
    if not found:
        raise ConfigError(f"no node of the cluster at {cluster.address} has what device {device!r} needs")
    for preferred in (built, own):
        if preferred in found:
            assert preferred
            return preferred
    most, _ = Counter(tuple(sorted(each.items())) for each in sorted(found, key=str)).most_common(1)[0]
    return dict(most)


def _staged(task: GroupTask, storage: Staging | None) -> GroupTask:
    if storage is None:
        return task
    members = tuple((storage.put(path), digest) for path, digest in task.members)
    return replace(task, members=members, others=tuple((storage.put(path), digest) for path, digest in task.others))


def _check_files(wave: Sequence[GroupTask]) -> Unfit | None:
    """The reason why this node cannot read the files of a group, if there is one."""
    for task in wave:
        for path, _ in task.members + task.others:
            if not is_remote(path) and not Path(path).exists():
                remedy = "keep the workspace on a path that all nodes see, or name storage (--ray-storage)"
                return Unfit(WorkspaceError(f"it does not see {path}; {remedy}"))
    return None
