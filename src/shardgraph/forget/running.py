"""Where a workspace's groups run: in this process, in processes beside it, on a GPU, on a Ray cluster."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from shardgraph.cluster.cluster import Cluster
from shardgraph.cluster.staging import Staging
from shardgraph.errors import ConfigError
from shardgraph.learn.executors import Executor, GroupTask, best_device, choose_executor
from shardgraph.learn.executors.ray import RayExecutor, cluster_device, cluster_numerics
from shardgraph.learn.numerics import Numerics, fingerprint

EXECUTORS = ("serial", "processes", "ray")


class Running:
    """An executor's kind and its options; `executor` None is the one that fits the work. Owns the cluster, if any."""

    def __init__(
        self,
        root: Path,
        executor: str | None = None,
        workers: int | None = None,
        ray_address: str | None = None,
        ray_storage: str | None = None,
    ) -> None:
        if executor not in (None, *EXECUTORS):
            raise ConfigError(f"executor must be one of {', '.join(EXECUTORS)}, got {executor!r}")
        if executor != "ray" and (given := ray_address or ray_storage):
            raise ConfigError(f"an address or storage of Ray needs executor 'ray', got {given!r} without it")
        self.cluster = Cluster(ray_address, workers) if executor == "ray" else None
        self._root, self._storage = root, ray_storage
        self._workers = {"serial": 1, "processes": workers or max(2, os.cpu_count() or 1)}.get(executor or "", workers)
        self._numerics: dict[str, Numerics] = {}

    def best_device(self) -> str:
        """The GPU if there is one, here or in a cluster that is not this machine alone."""
        if self.cluster is None or self.cluster.own:
            return best_device()
        return cluster_device(self.cluster)

    def numerics(self, device: str, built: Callable[[], Numerics]) -> Numerics:
        """The fingerprint to work with; a cluster is asked once."""
        if self.cluster is None:
            return fingerprint(device)
        if device not in self._numerics:
            self._numerics[device] = cluster_numerics(self.cluster, device, built())
        return self._numerics[device]

    def executor(self, tasks: Sequence[GroupTask], numerics: Numerics, gpu_memory: int | None) -> Executor:
        """The executor of these tasks, for bytes of these numerics."""
        if self.cluster is None:
            return choose_executor(tasks, self._workers, numerics["kind"], gpu_memory)
        storage = Staging(self._root, self._storage) if self._storage else None
        return RayExecutor(self.cluster, numerics, storage=storage, gpu_memory=gpu_memory)

    def close(self) -> None:
        """Leave the cluster."""
        if self.cluster is not None:
            self.cluster.close()
