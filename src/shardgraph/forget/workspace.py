"""Workspace: a folder that learns, predicts, forgets exactly, and can prove it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from shardgraph.data.catalogue import Catalogue
from shardgraph.data.files import check_room, disk_use, sweep
from shardgraph.data.lock import WriteLock
from shardgraph.data.samples import TEST, TRAIN, Samples, concatenate
from shardgraph.data.store import Store
from shardgraph.errors import (
    ConfigError,
    DamagedFile,
    FingerprintError,
    InputError,
    WorkspaceBusy,
    WorkspaceError,
)
from shardgraph.forget import execute
from shardgraph.forget.build import build
from shardgraph.forget.certificate import Certificate, certificate_path
from shardgraph.forget.config import Config
from shardgraph.forget.intake import admit, aim, fix
from shardgraph.forget.manifest import Manifest, load_model
from shardgraph.forget.plan import ForgetPlan, plan
from shardgraph.forget.request import ForgetRequest
from shardgraph.forget.secrets import Secrets
from shardgraph.forget.verify import Verification, verify
from shardgraph.graph import Topology
from shardgraph.learn.ensemble import Model
from shardgraph.learn.executors import choose_executor
from shardgraph.learn.fingerprint import difference, fingerprint
from shardgraph.learn.recipe import Recipe

Progress = Callable[[str, int, int], None]


class Workspace:
    """An open workspace. Reading needs nothing; writing takes the workspace's lock for as long as it lasts.

    `resume` finishes a forget that a crash interrupted, as every command does first.
    """

    def __init__(self, path: str | Path, *, workers: int | None = None, progress: Progress | None = None) -> None:
        self.root = Path(path)
        self.config = Config.load(self.root)
        self.catalogue = Catalogue(self.root / "catalog.sqlite")
        self.store = Store(self.root, self.catalogue)
        self.secrets = Secrets.load(self.root)
        self.lock = WriteLock(self.root)
        self._workers = workers
        self._progress = progress or (lambda what, done, of: None)
        self._model: Model | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        seed: int,
        backbone: dict[str, Any] | None = None,
        classes: Iterable[str] | None = None,
        dtype: str = "float16",
        **options: Any,
    ) -> "Workspace":
        """Make a new workspace; the folder must be new or empty."""
        root = Path(path)
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise WorkspaceError(f"{root} is there already and not empty; choose another folder")
        if dtype not in ("float16", "float32"):
            raise ConfigError(f"dtype must be float16 or float32, got {dtype!r}")
        root.mkdir(parents=True, exist_ok=True)
        declared = None if classes is None else tuple(sorted(set(classes)))
        Secrets.create(root)
        Catalogue(root / "catalog.sqlite").close()
        Config(seed=seed, backbone=backbone or {"name": "precomputed"}, classes=declared, dtype=dtype).save(root)
        return cls(root, **options)

    def close(self) -> None:
        """Close the catalogue."""
        self.catalogue.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Learning

    def add(self, samples: Samples, *, allow_return: bool = False) -> int:
        """Put samples in the inbox, where they wait for `train`; all of them or, on an error, none."""
        with self._writing():
            samples, returning = admit(samples, self.store, self.config, self.secrets, allow_return=allow_return)
            if not len(samples):
                return 0
            check_room(self.root, 2 * (samples.tokens.nbytes + samples.features.nbytes) + (1 << 20))
            if self.config.dims is None:
                self._save(replace(self.config, dims=(samples.tokens.shape[1], samples.features.shape[1])))
            self.store.put_inbox(samples)
            if returning:
                execute.log(self._bench(), "returned", {"samples": returning})
        return len(samples)

    def train(
        self, topology: Topology | None = None, recipe: Recipe | None = None, *, rebuild: bool = False
    ) -> Manifest:
        """Place what waits in the inbox and build what is missing; the first time, this fixes the configuration."""
        with self._writing():
            self._check_numerics(rebuild)
            self._save(fix(self.store, self.config, topology, recipe))
            aim(self.store, self.config)
            self.store.place(lambda done, of: self._progress("placing", done, of))
            manifest = build(self.store, self.config, self._choose, self._progress)
            detail = {"model": self.secrets.mark(manifest.model_digest), "groups": len(manifest.groups)}
            execute.log(self._bench(), "trained", detail)
            self.catalogue.scrub()
        return manifest

    # Predicting

    def model(self) -> Model:
        """The served model, whole in memory; read anew when the manifest has changed."""
        for _ in range(20):  # a writer may be replacing files just now
            manifest = Manifest.load(self.root)
            if not manifest.model_digest:
                raise WorkspaceError(f"{self.root} has no model yet; run: shardgraph train {self.root}")
            if self._model is not None and self._model.digest == manifest.model_digest:
                return self._model
            try:
                config = Config.load(self.root)
                self._model = load_model(self.root, manifest, config.the_recipe(), config.seed)
            except DamagedFile:
                if Manifest.load(self.root) == manifest:
                    raise
        assert self._model is not None
        return self._model

    def predict(self, samples: Samples) -> list[str]:
        """The predicted class of every sample."""
        return self.model().predict(samples)

    def held_out(self) -> Samples | None:
        """The samples whose split is test."""
        units = sorted(unit for unit in self.catalogue.unit_labels() if unit.startswith("test:"))
        return concatenate(self.store.read(unit) for unit in units) if units else None

    def evaluate(self) -> dict[str, Any]:
        """Accuracy on the samples whose split is test: stored, forgettable, never trained on."""
        samples = self.held_out()
        if samples is None:
            raise InputError("there is no sample whose split is test; add some, then train")
        right = np.array([a == b for a, b in zip(self.predict(samples), samples.labels, strict=True)])
        return {"accuracy": float(right.mean()), "samples": len(samples), "correct": int(right.sum())}

    # Forgetting

    def plan(self, request: ForgetRequest) -> ForgetPlan:
        """What a forget would rebuild and cost; changes nothing."""
        return plan(self.store, self.config, self.secrets, request)

    def forget(self, order: ForgetRequest | ForgetPlan, *, instant: bool = False) -> Certificate:
        """Forget, and return the certificate; what was forgotten before gives the certificate of then."""
        with self._writing():
            orders = self.plan(order) if isinstance(order, ForgetRequest) else order
            if not orders.rows:
                return self.certificate(orders.already[-1])
            self._check_rewrite_room(orders)
            self._model = None
            number = execute.accept(self._bench(), orders, instant)
            return execute.finish(self._bench(), number)

    def repair(self) -> Certificate | None:
        """Rebuild the groups that an instant forget withdrew; None if nothing was missing."""
        with self._writing():
            if not self.config.trained:
                return None
            self._check_numerics(rebuild=False)
            return execute.repair(self._bench())

    def resume(self) -> list[Certificate]:
        """Finish the forgets that a crash interrupted; nothing to do while another process writes."""
        if not execute.under_way(self._bench()):
            return []
        try:
            with self.lock:
                return self._recover()
        except WorkspaceBusy:
            return []

    def certificate(self, number: int) -> Certificate:
        """A certificate by its number."""
        return Certificate.load(certificate_path(self.root, number))

    def nonces(self, certificate: int, ids: Sequence[str]) -> dict[str, str]:
        """The nonces that open the entries of these samples; give each to the one who asked, to nobody else."""
        return {sample: self.secrets.nonce(certificate, sample) for sample in ids}

    def verify(self, *, full: bool = False) -> Verification:
        """Check certificates, chain and files; with `full`, rebuild everything elsewhere and compare."""
        return verify(self._bench(), full=full)

    # Looking

    def status(self) -> dict[str, Any]:
        """What is here, what is served and what waits."""
        manifest = Manifest.load(self.root)
        requests = self.catalogue.all("SELECT state, count(*) FROM requests GROUP BY state")
        same = not manifest.fingerprint or manifest.fingerprint == dict(fingerprint())
        status = {
            "model_digest": manifest.model_digest or None,
            "trained": self.config.trained,
            "complete": bool(manifest.model_digest) and not manifest.missing and not self._waiting(),
            "samples": {split: self.catalogue.count(f"split = '{split}'") for split in (TRAIN, TEST)},
            "waiting": self._waiting(),
            "classes": len(manifest.classes),
            "shards": len([u for u in self.catalogue.unit_digests() if u.startswith("shard:")]),
            "groups": {"serving": len(manifest.groups), "missing": len(manifest.missing)},
            "lambda": manifest.weight,
            "requests": dict(requests),
            "numerics": "same" if same else difference(dict(fingerprint()), manifest.fingerprint),
            "seed": self.config.seed,
            "topology": self.config.topology,
            "recipe": self.config.recipe,
            "disk_bytes": disk_use(self.root),
        }
        return status

    # Inside

    def _writing(self) -> "_Writing":
        return _Writing(self)

    def _recover(self) -> list[Certificate]:
        sweep(self.root)
        self._model = None
        return [execute.finish(self._bench(), number) for number in execute.under_way(self._bench())]

    def _bench(self) -> execute.Bench:
        return execute.Bench(self.store, self.config, self.secrets, self._choose, self._progress)

    def _choose(self, tasks: Sequence[Any]) -> Any:
        return choose_executor(tasks, self._workers)

    def _save(self, config: Config) -> None:
        if config != self.config:
            config.save(self.root)
            self.config = config

    def _waiting(self) -> int:
        return self.catalogue.count("unit LIKE 'inbox:%'")

    def _check_numerics(self, rebuild: bool) -> None:
        built = Manifest.load(self.root).fingerprint
        if built and built != dict(fingerprint()) and not rebuild:
            raise FingerprintError(
                f"the model was built with other numerics: {difference(dict(fingerprint()), built)}; "
                "run `shardgraph train --rebuild` to build all of it anew"
            )

    def _check_rewrite_room(self, orders: ForgetPlan) -> None:
        sizes = [self.store.path(unit).stat().st_size for unit in {row.unit for row in orders.rows}]
        check_room(self.root, 2 * max(sizes, default=0) + (1 << 20))


class _Writing:
    """The lock, with recovery first."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def __enter__(self) -> None:
        workspace = self._workspace
        fresh = not workspace.lock.held
        workspace.lock.__enter__()
        try:
            if fresh:
                workspace.config = Config.load(workspace.root)
                workspace._recover()
        except BaseException:
            workspace.lock.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._workspace.lock.__exit__(kind, error, trace)
