"""Workspace: a folder that learns, predicts, forgets exactly, and can prove it."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shardgraph.embedding.readers.base import Reader
from shardgraph.errors import (
    ConfigError,
    DamagedFile,
    InputError,
    WorkspaceBusy,
    WorkspaceError,
    check_list,
)
from shardgraph.forget.attended import Attended
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.consumers import Consumers
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetPlan, plan
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.erase.twins import THRESHOLD, Twin, twins
from shardgraph.forget.intake.admission import admit, aim, arriving_shards, fix, new_samples
from shardgraph.forget.intake.embed import OnBad, OnHere, arriving
from shardgraph.forget.intake.sources import SourceTerms, clear_terms, set_terms, terms_by_source
from shardgraph.forget.privacy.private_edges import check_releases, with_budget
from shardgraph.forget.proof.certificate import Certificate, certificate_path
from shardgraph.forget.proof.keys import Secrets
from shardgraph.forget.proof.verify import Rebuild, Verification, compare_groups, rebuild_of, verify
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.rights.provision import strays
from shardgraph.forget.status import status
from shardgraph.forget.views.graph_view import Portrait, portrait
from shardgraph.forget.views.served import Key, served_key, served_model
from shardgraph.graph import Topology
from shardgraph.learn.ensemble import Model
from shardgraph.learn.executors import best_device
from shardgraph.learn.private.accounting.budget import Budget
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.database import Catalogue
from shardgraph.storage.files import check_room
from shardgraph.storage.samples import TEST, TRAIN, Samples, concatenate

RETRIES, PAUSE = 400, 0.05  # to load a model while another process withdraws samples: that may take a while
TORN = 40  # of them, for a file that looks torn: then it is, and nobody is about to replace it


class Workspace(Attended, Consumers):
    """An open workspace. Reading needs nothing; writing takes the workspace's lock for as long as it lasts.

    `resume` finishes a forget that a crash interrupted, as every command does first.
    """

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
        if classes is not None:
            check_list(classes, "the classes of a workspace")
        root.mkdir(parents=True, exist_ok=True)
        declared = None if classes is None else tuple(sorted(set(classes)))
        Secrets.create(root)
        Catalogue(root / "catalog.sqlite").close()
        Config(seed=seed, backbone=backbone or {"name": "precomputed"}, classes=declared, dtype=dtype).save(root)
        return cls(root, **options)

    # Learning

    def add(self, samples: Samples, *, allow_return: bool = False, only_new: bool = False) -> int:
        """Put samples in the inbox, where they wait for `train`; all of them or, on an error, none.

        `only_new` passes over those that are here already with the same label, source, subject and split.
        """
        with self._writing():
            samples = new_samples(samples, self.store) if only_new else samples
            samples, returning = admit(samples, self.store, self.config, self.secrets, allow_return=allow_return)
            if not len(samples):
                return 0
            check_room(self.root, 2 * (samples.tokens.nbytes + samples.features.nbytes) + (1 << 20))
            if self.config.dims is None:
                self._save(replace(self.config, dims=(samples.tokens.shape[1], samples.features.shape[1])))
            self.store.put_inbox(samples)
            if returning:
                self._bench().log("returned", {"samples": returning})
        return len(samples)

    def add_records(
        self,
        reader: Reader,
        name: str,
        *,
        allow_return: bool = False,
        skip_bad: bool = False,
        on_bad: OnBad | None = None,
        only_new: OnHere | None = None,
    ) -> int:
        """Embed a reader's records and put them in the inbox; killed, the same call goes on where it was.

        `name` says which input this is. All ids are checked before anything is embedded; what cannot be read
        is told to `on_bad` and is an error at the end, unless `skip_bad`. With `only_new`, what is here already with
        the same label, source, subject and split is passed over, unread, and its number told.
        """
        with self._writing():
            bench = self._bench()
            parts = arriving(
                bench,
                reader,
                name,
                allow_return=allow_return,
                skip_bad=skip_bad,
                on_bad=on_bad,
                only_new=only_new,
                cluster=self._run.cluster,
            )
            return sum(self.add(part, allow_return=allow_return) for part in parts)

    def train(
        self,
        topology: Topology | None = None,
        recipe: Recipe | None = None,
        *,
        privacy: PrivacyTerms | None = None,
        budget: Budget | None = None,
        rebuild: bool = False,
    ) -> Manifest:
        """Place what waits in the inbox and build what is missing; the first time, this fixes the configuration.

        `privacy` makes edges private; `budget` changes the budget of private edges, which nothing else can later.
        """
        with self._writing():
            if not rebuild:
                self.check_numerics()
            if privacy is not None and budget is not None:
                privacy = replace(privacy, budget=budget)
            config = with_budget(self.store, fix(self.store, self.config, topology, recipe, privacy), budget)
            if self.config.trained:
                check_releases(self.store, config, arriving_shards(self.store, config), rebuild=rebuild)
            if rebuild:
                self._distrust()
            self._save(config)
            aim(self.store, self.config)
            self.store.place(lambda done, of: self._progress("placing", done, of))
            manifest = self._bench().build()
            told = {"model": self.secrets.mark(manifest.model_digest), "groups": len(manifest.groups)}
            self._bench().log("trained", told | {"config": self.secrets.mark("config", self.config.basis)})
            self.catalogue.scrub()
        return manifest

    # Predicting

    def model(self) -> Model:
        """The served model, whole in memory; read anew when the manifest has changed, or what is withheld."""
        if self._model is not None and self._key == served_key(self.store):
            return self._model
        for left in reversed(range(RETRIES)):  # a writer may be replacing files just now
            try:
                config = Config.load(self.root)
                self._key, self._model = served_model(self.store, config, self._shelf, best_device())
                break
            except (DamagedFile, WorkspaceBusy) as error:
                if not left or (isinstance(error, DamagedFile) and left < RETRIES - TORN):
                    raise
                time.sleep(PAUSE)
        assert self._model is not None
        return self._model

    @property
    def model_key(self) -> Key | None:
        """What the model in memory depends on."""
        return self._key

    def predict(self, samples: Samples, consumer: str | None = None) -> list[str]:
        """The predicted class of every sample; by a consumer's model, if one is named."""
        self._check_dims(samples)
        return self._answering(consumer).predict(samples)

    def scores(self, samples: Samples, consumer: str | None = None) -> np.ndarray:
        """SAFE(z) for every sample and class [n, K], in the order of the classes of `model()`, or of `model_for`."""
        self._check_dims(samples)
        return self._answering(consumer).scores(samples)

    def held_out(self) -> Samples | None:
        """The samples whose split is test."""
        units = self._held_out_units()
        return concatenate(self.store.read(unit) for unit in units) if units else None

    def evaluate(self, consumer: str | None = None) -> dict[str, Any]:
        """Accuracy on the samples whose split is test: stored, forgettable, never trained on.

        A consumer's model is asked about all of them, also those of classes and sources that it may not use.
        `unknown` are those of classes that the model does not have: it cannot be right about them.
        """
        units = self._held_out_units()
        if not units:
            raise InputError("there is no sample whose split is test; add some, then train")
        model, count, correct, unknown = self._answering(consumer), 0, 0, 0
        for unit in units:  # one file in memory at a time
            samples = self.store.read(unit)
            correct += sum(a == b for a, b in zip(model.predict(samples), samples.labels, strict=True))
            unknown += sum(label not in model.classes for label in samples.labels)
            count += len(samples)
        return {"accuracy": correct / count, "samples": count, "correct": correct, "unknown": unknown}

    # Forgetting

    def plan(self, request: ForgetRequest) -> ForgetPlan:
        """What a forget would rebuild and cost; changes nothing."""
        return plan(self.store, self.config, self.secrets, request)

    def twins(self, ids: Iterable[str] | None = None, threshold: float = THRESHOLD) -> list[Twin]:
        """Samples that hold the same content: all pairs, or the twins of `ids`; exact ones, and near ones by cosine."""
        return twins(self.store, ids, threshold)

    def with_twins(self, request: ForgetRequest, threshold: float = THRESHOLD) -> ForgetRequest:
        """The request, with the twins of all that it names."""
        rows = self.plan(request).rows
        others = {twin.other for twin in self.twins([row.id for row in rows], threshold)} - {row.id for row in rows}
        return replace(request, samples=(*request.samples, *sorted(others))) if others else request

    def forget(self, order: ForgetRequest | ForgetPlan, *, instant: bool = False) -> Certificate:
        """Forget, and return the certificate; what was forgotten before gives the certificate of then.

        While a service runs it is asked, and waited for; it rebuilds what it withdraws.
        """
        request = order if isinstance(order, ForgetRequest) else order.request
        if self.served:
            if isinstance(order, ForgetPlan):
                _check_fresh(order, self.plan(request))
            return self.wait_for(self.submit(Submission(request, asker="command line")).number)
        with self._writing():
            orders = self.plan(request)
            if isinstance(order, ForgetPlan):
                _check_fresh(order, orders)
            if not orders.rows:
                self.catalogue.scrub()  # a reader may have kept the log from being emptied then
                return self.certificate(orders.already[-1])
            self._check_inputs(orders, instant)
            self.drop_models()
            return execute.carry_out(self._bench(), orders, instant)

    def repair(self) -> Certificate | None:
        """Rebuild the groups that an instant forget withdrew; None if nothing was missing."""
        with self._writing():
            if not self.config.trained:
                return None
            self.check_numerics()
            return execute.repair(self._bench())

    def resume(self) -> list[Certificate]:
        """Finish the placement and the forgets that a crash interrupted; not while another process writes."""
        moving = self.config.trained and self.catalogue.count("target IS NOT NULL")
        torn = execute.under_way(self._bench()) or execute.torn(self._bench())
        if not moving and not torn and not self.catalogue.soiled and not strays(self.store):
            return []
        try:
            with self.lock:
                return self._recover()
        except WorkspaceBusy:
            return []

    def certificate(self, number: int) -> Certificate:
        """A certificate by its number."""
        return Certificate.load(self.certificate_path(number))

    def certificate_path(self, number: int) -> Path:
        """Where a certificate lies."""
        return certificate_path(self.root, number)

    def last_certificate(self) -> int:
        """The number of the last certificate; 0 before the first."""
        return execute.last_certificate(self._bench())

    def nonces(self, certificate: int, ids: Sequence[str]) -> dict[str, str]:
        """The nonces that open the entries of these samples; give each to the one who asked, to nobody else."""
        return {sample: self.secrets.nonce(certificate, sample) for sample in ids}

    def verify(self, *, full: bool = False) -> Verification:
        """Check certificates, chain and files; with `full`, rebuild everything elsewhere and compare."""
        with self._writing():  # a writer's files would look torn
            found = verify(self._bench(), full=full)
        if not full:
            return found

        def take() -> Rebuild:
            with self._writing():
                return rebuild_of(self._bench())

        return Verification((*found.checks, compare_groups(self._bench(), take)), full)

    # Looking

    def status(self) -> dict[str, Any]:
        """What is here, what is served and what waits."""
        return status(self._bench())

    def counts(self) -> dict[str, int]:
        """How many samples there are, by split."""
        return {split: self.catalogue.count(f"split = '{split}'") for split in (TRAIN, TEST)}

    def sources(self) -> dict[str, SourceTerms]:
        """Every source that is here or was described, with what is known about it."""
        return terms_by_source(self.catalogue)

    def describe_source(
        self, name: str, *, owner: str | None = None, terms: str | None = None, rate: float | None = None
    ) -> SourceTerms:
        """Keep who gave a source, on what terms, and which share of it may be asked back in a year."""
        with self._writing():
            return set_terms(self.catalogue, name, owner=owner, terms=terms, rate=rate)

    def clear_source(self, name: str) -> None:
        """Drop what was kept about a source; its samples stay."""
        with self._writing():
            clear_terms(self.catalogue, name)

    def portrait(self) -> Portrait:
        """The shard graph as it is now, for those who draw it."""
        return portrait(self.store, self.config, Manifest.load(self.root))

    # Inside

    def _answering(self, consumer: str | None) -> Model:
        return self.model() if consumer is None else self.model_for(consumer)

    def _held_out_units(self) -> list[str]:
        return sorted(unit for unit in self.catalogue.unit_labels() if unit.startswith("test:"))


def _check_fresh(order: ForgetPlan, now: ForgetPlan) -> None:
    """Raise unless a plan says what would be planned now."""
    if (order.rows, order.groups) != (now.rows, now.groups):
        raise WorkspaceError("the plan is stale: the workspace changed since; plan again")
