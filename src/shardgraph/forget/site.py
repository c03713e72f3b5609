"""A workspace's site: its open parts, its lock, and recovery before anybody writes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from shardgraph.cluster.staging import sweep_staged
from shardgraph.errors import DamagedFile, FingerprintError
from shardgraph.forget.bench import Bench
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.erase import execute
from shardgraph.forget.proof.certificate import Certificate
from shardgraph.forget.proof.keys import Secrets
from shardgraph.forget.proof.verify import problems
from shardgraph.forget.queue import queue
from shardgraph.forget.running import Running
from shardgraph.forget.views.served import Key, Shelf
from shardgraph.learn.ensemble import Model
from shardgraph.learn.executors import on_gpu
from shardgraph.learn.numerics import Numerics, difference
from shardgraph.storage.database import Catalogue
from shardgraph.storage.files import sweep
from shardgraph.storage.lock import WriteLock
from shardgraph.storage.store import Store

Progress = Callable[[str, int, int], None]


class Site:
    """What a workspace's verbs stand on. Reading needs nothing; `_writing` takes the lock and recovers first."""

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
        progress: Progress | None = None,
    ) -> None:
        self.root = Path(path)
        self.config = Config.load(self.root)
        self.catalogue = self._the_catalogue()
        self.store = Store(self.root, self.catalogue)
        self.secrets = Secrets.load(self.root)
        self.lock = WriteLock(self.root)
        self._device = device
        self._gpu_memory = gpu_memory
        self._run = Running(self.root, executor, workers, ray_address, ray_storage)
        self._progress = progress or (lambda what, done, of: None)
        self._model: Model | None = None
        self._key: Key | None = None  # what the model in memory depends on
        self._shelf = Shelf()

    def _the_catalogue(self) -> Catalogue:
        path = self.root / "catalog.sqlite"
        if not path.exists():  # SQLite would make an empty one, and everything that is here would count as never seen
            raise DamagedFile(
                f"{path} is missing: restore the workspace from a backup, for nothing else says what is here"
            )
        return Catalogue(path)

    @property
    def device(self) -> str:
        """Where groups train, "cpu" or "cuda": as told, else as the model was built, else the GPU if there is one.

        A GPU's model where there is no GPU has other numerics: `status` says so, and it can be forgotten from.
        """
        device = self._device or ("cpu" if self._built_on() == "cpu" else self._run.best_device())
        fits = not self.config.trained or on_gpu(self.config.dims, self.config.the_recipe())
        return device if device == "cpu" or fits else "cpu"

    @property
    def numerics(self) -> Numerics:
        """The fingerprint that is worked with on that device: this process's, or that of a cluster's nodes."""
        return self._run.numerics(self.device, self._built_with)

    def close(self) -> None:
        """Close the catalogue, and give the lock back if an interruption left it held."""
        self.lock.release()
        self.catalogue.close()
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _writing(self) -> "_Writing":
        return _Writing(self)

    def _recover(self) -> list[Certificate]:
        sweep(self.root)
        sweep_staged(self.root)
        if self.config.trained:
            self.store.place()  # else a sample could leave the inbox while its half-placed copy stays
        else:
            self.store.drop_empty_inbox()
            self.store.unaim()  # a first training was interrupted before it began
        self._drop_model()
        bench = self._bench()
        finished = [execute.finish(bench, number, recovering=True) for number in execute.under_way(bench)]
        if self.config.trained:
            execute.mend(bench)
        if self.catalogue.soiled:
            self.catalogue.scrub()
        queue.settle(self.catalogue)
        return finished

    def _drop_model(self) -> None:
        """Give up what is in memory: it may have seen what is leaving."""
        self._model, self._key = None, None
        self._shelf.clear()

    def drop_models(self) -> None:
        """Give up every model in memory, before samples leave."""
        self._drop_model()

    def _bench(self) -> Bench:
        parts = (self.store, self.config, self.secrets, self.numerics)
        return Bench(*parts, self._choose, self._progress, problems)

    def _choose(self, tasks: Sequence[Any]) -> Any:
        return self._run.executor(tasks, self.numerics, self._gpu_memory)

    def _save(self, config: Config) -> None:
        if config != self.config:
            config.save(self.root)
            self.config = config

    def _built_on(self) -> str | None:
        return self._built_with().get("kind")

    def _built_with(self) -> Numerics:
        try:
            return Manifest.load(self.root).fingerprint
        except DamagedFile:  # which `train --rebuild` must be able to mend
            return {}

    def _distrust(self) -> None:
        """Make every group and the prototypes work to do."""
        with self.catalogue.transaction() as db:
            db.execute("UPDATE built SET key = ''")

    def check_numerics(self) -> None:
        """Raise if the model was built with other numerics than those of this process."""
        built = Manifest.load(self.root).fingerprint
        if built and built != self.numerics:
            raise FingerprintError(
                f"the model was built with other numerics: {difference(self.numerics, built)}; "
                "run `shardgraph train --rebuild` to build all of it anew"
            )


class _Writing:
    """The lock, with recovery first."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __enter__(self) -> None:
        site = self._site
        fresh = not site.lock.held
        site.lock.__enter__()
        try:
            if fresh:
                site.config = Config.load(site.root)
                site._recover()
        except BaseException:
            site.lock.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._site.lock.__exit__(kind, error, trace)
