"""The context: the open parts of one workspace, which all functions of this package take as an argument.

Reading needs no lock. Code that writes must use `erase.recovery.writing`, which takes the lock and recovers first.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from shardgraph.errors import ConfigError, DamagedFile, FingerprintError, WorkspaceBusy, WorkspaceError
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.proof.keys import Keys
from shardgraph.learn.executors import Executor, GroupTask, best_device, choose_executor, on_gpu
from shardgraph.learn.numerics import Numerics, difference, fingerprint
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import WriteLock, require_content
from shardgraph.storage.store import Store
from shardgraph.storage.tables import erasures, ledger

if TYPE_CHECKING:
    from shardgraph.cluster.cluster import Cluster

LOG_POINTER = "record"  # the file with the path of the erasure log, if one is kept
CATALOGUE = "catalog.sqlite"
_KEYS, _CONFIG = "keys", "config"  # facts in the catalogue: keyed hashes of the keys and of the configuration
SERVING = "serving"  # the file that is locked while a service runs
EXECUTORS = ("serial", "processes", "ray")
Progress = Callable[[str, int, int], None]
"""Called with the name of the work, how much of it is done, and how much there is."""


class Context:
    """An open workspace: configuration, catalogue, files, keys, the write lock, and where groups are trained.

    workers, executor, ray_address, ray_storage   where groups are trained; None: chosen by the amount of work
    device                                        "cpu" or "cuda"; None: as the model was built, else a GPU if any
    gpu_memory                                    the largest number of bytes that samples may take on a GPU
    backbone_path                                 where the backbone lies, if not where the workspace says
    """

    def __init__(
        self,
        path: str | Path,
        *,
        workers: int | None = None,
        device: str | None = None,
        gpu_memory: int | None = None,
        executor: str | None = None,
        ray_address: str | None = None,
        ray_storage: str | None = None,
        backbone_path: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        if executor not in (None, *EXECUTORS):
            raise ConfigError(f"executor must be one of {', '.join(EXECUTORS)}, got {executor!r}")
        if executor != "ray" and (given := ray_address or ray_storage):
            raise ConfigError(f"an address or storage of Ray needs executor 'ray', got {given!r} without it")
        self.root = Path(path)
        self.config = Config.load(self.root)
        self.catalogue = _open_catalogue(self.root)
        self.store = Store(self.root, self.catalogue)
        self.keys = Keys.load(self.root)
        self.check_identity()
        self.lock = WriteLock(self.root)
        self.cluster = _join_cluster(ray_address, workers) if executor == "ray" else None
        self.backbone_path = None if backbone_path is None else str(backbone_path)
        self.progress: Progress = progress or (lambda what, done, of: None)
        self.waiting_since: dict[int, float] = {}  # request -> `monotonic` of its receipt, see `queue.queue`
        self._workers = {"serial": 1, "processes": workers or max(2, os.cpu_count() or 1)}.get(executor or "", workers)
        self._device, self._gpu_memory, self._ray_storage = device, gpu_memory, ray_storage
        self._cluster_numerics: dict[str, Numerics] = {}
        self._caches: list[Callable[[], None]] = []
        self._written_caches: list[Callable[[], None]] = []
        self._log_checked = False
        self.notes: list[str] = []  # what a person should be told; the command line prints it

    def close(self) -> None:
        """Close the catalogue, leave the cluster, and release the lock if an interruption left it held."""
        self.lock.release()
        self.catalogue.close()
        if self.cluster is not None:
            self.cluster.close()

    def now(self) -> datetime:
        """The current time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds by a clock that nobody can set; only differences mean something."""
        return time.monotonic()

    def record_event(self, event: str, detail: Mapping[str, object]) -> None:
        """Add an event to the ledger, in a transaction of its own; its detail names no sample."""
        with self.catalogue.transaction() as transaction:
            ledger.add_event(transaction, event, detail, self.now())

    # The erasure log

    @property
    def keeps_log(self) -> bool:
        """Whether requests are recorded in a file outside the workspace."""
        return (self.root / LOG_POINTER).exists() or ledger.known_log_end(self.catalogue) is not None

    def check_log(self) -> None:
        """Raise if requests of the erasure log must be carried out again, or it is not in order; checked once."""
        if self._log_checked:
            return
        if self.keeps_log:
            from shardgraph.forget.proof.log_standing import check

            check(self)
        self._log_checked = True

    # The service

    def serving_lock(self) -> WriteLock:
        """The lock that a serving process holds until it ends."""
        return WriteLock(self.root, SERVING, "serving")

    @property
    def is_served(self) -> bool:
        """Whether a process serves this workspace."""
        if not (self.root / SERVING).exists():
            return False
        try:
            with self.serving_lock():
                return False
        except WorkspaceBusy:
            return True

    # Configuration

    def reload_config(self) -> None:
        """Read config.json again: another process may have trained for the first time."""
        self.config = Config.load(self.root)

    def save_config(self, config: Config) -> None:
        """Replace the configuration, on disk and in memory."""
        if config != self.config:
            self._record_identity([self.keys], [self.config, config])  # a crash may leave either
            config.save(self.root)
            self.config = config
            self._record_identity([self.keys], [config])

    def record_identity(self) -> None:
        """Record the keys and the configuration that are in use, so that others are refused from now on."""
        keys, config = self._keys_mark(self.keys), self._config_mark(self.keys, self.config)
        if (self.catalogue.state(_KEYS), self.catalogue.state(_CONFIG)) != (keys, config):
            self._record_identity([self.keys], [self.config])

    def check_identity(self) -> None:
        """Raise unless the keys and the configuration are those that were recorded."""
        keys, configs = self.catalogue.state(_KEYS), self.catalogue.state(_CONFIG)
        if keys is not None and self._keys_mark(self.keys) not in keys.split():
            raise DamagedFile(
                f"secret.key or signing.key of {self.root} is not the one that the workspace has used so far: "
                "restore both from a backup; no other key can replace them"
            )
        if configs is not None and self._config_mark(self.keys, self.config) not in configs.split():
            raise DamagedFile(f"{self.root / 'config.json'} was changed: restore it from a backup")

    def replace_secret(self) -> None:
        """Replace the secret of the keyed hashes by a new one, and delete what was hashed with the old one."""
        if self.keeps_log:
            raise WorkspaceError(
                "a record of forgets is kept, which only the present secret can read; it cannot change"
            )
        new = self.keys.with_new_secret()
        self._record_identity([self.keys, new], [self.config])  # a crash may leave either
        new.save_secret(self.root)
        self.keys = new
        manifest = Manifest.load(self.root)
        detail = {"config": new.mark("config", self.config.basis)} if self.config.trained else {}
        detail |= {"model": new.mark(manifest.model_digest)} if manifest.model_digest else {}
        with self.catalogue.transaction() as transaction:
            erasures.drop_marks(transaction)
            ledger.add_event(transaction, "rekeyed", detail, self.now())
            transaction.mark_dirty()
        self._record_identity([new], [self.config])
        self.catalogue.scrub()

    def _record_identity(self, keys: Sequence[Keys], configs: Sequence[Config]) -> None:
        with self.catalogue.transaction() as transaction:
            transaction.set_state(_KEYS, " ".join(map(self._keys_mark, keys)))
            marks = [self._config_mark(key, config) for key in keys for config in configs]
            transaction.set_state(_CONFIG, " ".join(marks))

    @staticmethod
    def _keys_mark(keys: Keys) -> str:
        return keys.mark("keys", keys.public)

    @staticmethod
    def _config_mark(keys: Keys, config: Config) -> str:
        return keys.mark("config.json", config.digest)

    # Models in memory

    def add_cache(self, drop: Callable[[], None], *, on_write: bool = False) -> None:
        """Register `drop`, which `drop_models` calls: the cache may hold models that saw the samples.

        With `on_write` it is also dropped before every write: another process may have erased samples since.
        """
        (self._written_caches if on_write else self._caches).append(drop)

    def drop_models(self) -> None:
        """Drop every model in memory; called before samples are erased."""
        for drop in (*self._caches, *self._written_caches):
            drop()

    def drop_written(self) -> None:
        """Drop the models that are dropped before every write."""
        for drop in self._written_caches:
            drop()

    # Where groups are trained

    @property
    def device(self) -> str:
        """Where groups train, "cpu" or "cuda": as given, else as the model was built, else the GPU if there is one.

        If the model was built on a GPU and there is none here, the numerics differ: `status` reports it, and samples
        can still be forgotten.
        """
        device = self._device or ("cpu" if self.built_numerics().get("kind") == "cpu" else self._best_device())
        fits = not self.config.trained or on_gpu(self.config.dims, self.config.the_recipe())
        return device if device == "cpu" or fits else "cpu"

    @property
    def numerics(self) -> Numerics:
        """The numerics fingerprint of `device`: of this process, or of the nodes of a cluster."""
        device = self.device
        if self.cluster is None:
            return fingerprint(device)
        if device not in self._cluster_numerics:
            from shardgraph.learn.executors.ray import cluster_numerics

            self._cluster_numerics[device] = cluster_numerics(self.cluster, device, self.built_numerics())
        return self._cluster_numerics[device]

    def built_numerics(self) -> Numerics:
        """The fingerprint that the model was built with; empty before the first training."""
        try:
            return Manifest.load(self.root).fingerprint
        except DamagedFile:  # `train --rebuild` must be able to repair it
            return {}

    @property
    def same_numerics(self) -> bool:
        """Whether the model was built with the numerics of this process, or there is none yet."""
        built = Manifest.load(self.root).fingerprint
        return not built or built == self.numerics

    def check_numerics(self) -> None:
        """Raise if the model was built with other numerics than those of this process."""
        if not self.same_numerics:
            built = Manifest.load(self.root).fingerprint
            raise FingerprintError(
                f"the model was built with other numerics: {difference(self.numerics, built)}; "
                "run `shardgraph train --rebuild` to build all of it again"
            )

    def choose_executor(self, tasks: Sequence[GroupTask]) -> Executor:
        """The executor that trains these tasks under `numerics`."""
        if self.cluster is None:
            return choose_executor(tasks, self._workers, self.numerics["kind"], self._gpu_memory)
        from shardgraph.cluster.staging import Staging
        from shardgraph.learn.executors.ray import RayExecutor

        storage = Staging(self.root, self._ray_storage) if self._ray_storage else None
        return RayExecutor(self.cluster, self.numerics, storage=storage, gpu_memory=self._gpu_memory)

    def _best_device(self) -> str:
        """The GPU if there is one: in this machine, or in a cluster that has other machines."""
        if self.cluster is None or self.cluster.own:
            return best_device()
        from shardgraph.learn.executors.ray import cluster_device

        return cluster_device(self.cluster)


def _join_cluster(address: str | None, workers: int | None) -> "Cluster":
    from shardgraph.cluster.cluster import Cluster  # imported only where a cluster is used

    return Cluster(address, workers)


def _open_catalogue(root: Path) -> Catalogue:
    path = root / CATALOGUE
    require_content(path)  # in an empty catalogue every sample would count as never seen
    return Catalogue(path)
