"""Workspace: a folder that learns, predicts, forgets exactly, and can prove it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shardgraph.embedding.readers.base import Reader
from shardgraph.errors import ConfigError, InputError, WorkspaceError, check_list
from shardgraph.forget.build.build import build
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.erase import execute, recovery
from shardgraph.forget.erase.plan import ForgetPlan, ForgetRequest, plan_forget
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.erase.twins import THRESHOLD, Twin, find_twins
from shardgraph.forget.intake.embed import OnBad, OnPresent, embed_arriving, new_backbone, save_location
from shardgraph.forget.intake.first_training import aim_samples, plan_configuration, waiting_shards
from shardgraph.forget.intake.sources import Sources
from shardgraph.forget.intake.stream import add_parts
from shardgraph.forget.proof.certificate import Certificate, Certificates
from shardgraph.forget.proof.keys import Keys
from shardgraph.forget.proof.verify import Rebuild, Verification, compare_groups, rebuild_of, run_checks
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.queue.request_queue import RequestQueue
from shardgraph.forget.rights.consumers import Consumers
from shardgraph.forget.status import status
from shardgraph.forget.views.served import ServedModel
from shardgraph.forget.views.views import Views
from shardgraph.graph import Topology
from shardgraph.learn.ensemble import Model
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.samples import Samples
from shardgraph.storage.tables import inventory

if TYPE_CHECKING:
    from shardgraph.learn.private.accounting.budget import Budget
    from shardgraph.learn.private.accounting.terms import PrivacyTerms


class Workspace:
    """An open workspace. Reading needs no lock; every writing method takes the write lock while it runs.

    context        the open parts of the workspace, which all of the following share
    queue          forget requests: submit them, withhold their samples, carry them out in batches
    consumers      rights over a part of the data, and models of that part
    served         the model that may be served now
    certificates   the certificates, and the nonces that open their leaves
    sources        who gave the data, on what terms
    views          read access for display: the graph, one shard, counts

    `resume` finishes erasures that a crash interrupted; every command calls it first.
    """

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.context = Context(path, **options)

    @cached_property
    def served(self) -> ServedModel:
        """The model that may be served now."""
        return ServedModel(self.context)

    @cached_property
    def queue(self) -> RequestQueue:
        """Forget requests: submit them, withhold their samples, carry them out in batches."""
        return RequestQueue(self.context)

    @cached_property
    def consumers(self) -> Consumers:
        """Rights over a part of the data, and models of that part."""
        return Consumers(self.context)

    @cached_property
    def certificates(self) -> Certificates:
        """The certificates, and the nonces that open their leaves."""
        return Certificates(self.context)

    @cached_property
    def sources(self) -> Sources:
        """Who gave the data, on what terms, and the share that is expected to be withdrawn in a year."""
        return Sources(self.context)

    @cached_property
    def views(self) -> Views:
        """Read access for display: the graph, one shard, counts."""
        return Views(self.context)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        seed: int,
        backbone: str | dict[str, Any] | None = None,
        backbone_path: str | Path | None = None,
        classes: Iterable[str] | None = None,
        dtype: str = "float16",
        **options: Any,
    ) -> Self:
        """Create a workspace and open it; the folder must be new or empty.

        `backbone` is the name of a backbone, or what `backbone_identity` returned; by default embeddings are added.
        `backbone_path` is where it lies, if its name does not say it. The workspace keeps the absolute path.
        """
        root = Path(path)
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise WorkspaceError(
                f"a new workspace needs a new or empty folder, {root} is a file or not empty; choose another one"
            )
        if dtype not in ("float16", "float32"):
            raise ConfigError(f"dtype must be float16 or float32, got {dtype!r}")
        if classes is not None:
            check_list(classes, "the classes of a workspace")
        identity, location = new_backbone(backbone, backbone_path, dtype)
        root.mkdir(parents=True, exist_ok=True)
        declared = None if classes is None else tuple(sorted(set(classes)))
        Keys.create(root)
        Catalogue(root / "catalog.sqlite").close()
        Config(seed=seed, backbone=identity, classes=declared, dtype=dtype).save(root)
        if location is not None:
            save_location(root, location)
        return cls(root, **options)

    @property
    def root(self) -> Path:
        """The workspace's folder."""
        return self.context.root

    @property
    def config(self) -> Config:
        """Everything that determines the model, except the samples."""
        return self.context.config

    def close(self) -> None:
        """Close the catalogue, and release the lock if an interruption left it held."""
        self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Learning

    def add(
        self,
        samples: Any,
        labels: Iterable[Any] | None = None,
        *,
        allow_return: bool = False,
        only_new: bool = False,
        **options: Any,
    ) -> int:
        """Put samples in the inbox, where they wait for `train`, and return their number.

        `samples` is a path or a URL (a folder of images, a table, arrays); a frame, a table or a stream of Arrow; a
        data set of `datasets`; an array or a list of images or texts, with `labels` and, if there are any, `ids`,
        `sources`, `subjects` and `splits`; or `Samples`. `columns={"label": "intent"}` names the columns of a table.

        On an error nothing is added. An exception is a folder or table of images or texts at a path or URL: what was
        embedded stays, and the same call continues the work. An image that cannot be read is an error, unless
        `skip_bad`; `on_bad(id, reason)` is called for each.

        `only_new` skips samples that the workspace holds already with the same label, source, subject and split.
        """
        if not isinstance(samples, Samples):
            from shardgraph.forget.intake.inputs import add_data

            return add_data(self, samples, labels, allow_return=allow_return, only_new=only_new, **options)
        if labels is not None or options:
            raise TypeError(f"Samples have labels and ids of their own, got also {', '.join(options) or 'labels'}")
        return len(add_parts(self.context, (samples,), allow_return=allow_return, skip_present=only_new).ids)

    def add_records(
        self,
        reader: Reader,
        name: str,
        *,
        allow_return: bool = False,
        skip_bad: bool = False,
        on_bad: OnBad | None = None,
        only_new: OnPresent | None = None,
    ) -> int:
        """Embed a reader's records and put them in the inbox; if it is interrupted, the same call continues the work.

        `name` identifies the input. All ids are checked before anything is embedded. A record that cannot be read is
        passed to `on_bad`; at the end that is an error, unless `skip_bad`. With `only_new`, records that the workspace
        holds already with the same label, source, subject and split are skipped without reading them, and `only_new` is
        called with their number.
        """
        with writing(self.context):
            parts = embed_arriving(
                self.context,
                reader,
                name,
                allow_return=allow_return,
                skip_bad=skip_bad,
                on_bad=on_bad,
                only_new=only_new,
            )
            return sum(self.add(part, allow_return=allow_return) for part in parts)

    def train(
        self,
        topology: Topology | str | None = None,
        recipe: Recipe | str | None = None,
        *,
        privacy: "PrivacyTerms | None" = None,
        budget: "Budget | None" = None,
        rebuild: bool = False,
        **options: Any,
    ) -> Manifest:
        """Place the samples of the inbox in shards and build what is missing; the first call fixes the configuration.

        Instead of a topology and a recipe, their names and the options of the command line may be given:
        `train(coarse=8, fine=4)`, `train(topology="by-source", epochs=10)`.

        `privacy` makes edges private. `budget` changes the budget of private edges; there is no other way to change it
        later.
        """
        context = self.context
        if options or isinstance(topology, str) or isinstance(recipe, str):
            from shardgraph.forget.intake.inputs import training_values

            topology, recipe = training_values(topology, recipe, options)
        with writing(context):
            if not rebuild:
                context.check_numerics()
            if privacy is not None and budget is not None:
                privacy = replace(privacy, budget=budget)
            first = not context.config.trained
            config = plan_configuration(context.store, context.config, topology, recipe, privacy)
            if config.privacy is not None or budget is not None:
                from shardgraph.forget.privacy.private_edges import check_releases, with_budget

                config = with_budget(context.store, config, budget)
                if not first:
                    check_releases(context.store, config, waiting_shards(context.store, config), rebuild=rebuild)
            if rebuild:
                with context.catalogue.transaction() as transaction:
                    inventory.clear_built_keys(transaction)
            if first:
                aim_samples(context.store, config, first=True)
            context.save_config(config)
            aim_samples(context.store, config)
            context.store.place(lambda done, of: context.progress("placing", done, of))
            manifest = build(context)
            detail = {"model": context.keys.mark(manifest.model_digest), "groups": len(manifest.groups)}
            context.record_event("trained", detail | {"config": context.keys.mark("config", config.basis)})
            context.catalogue.scrub()
        return manifest

    # Predicting

    def model(self, consumer: str | None = None) -> Model:
        """The model that may be served now, loaded into memory; a consumer's model if one is named."""
        return self.served.model() if consumer is None else self.consumers.model(consumer)

    def predict(
        self, samples: Any, consumer: str | None = None, *, columns: Mapping[str, str] | None = None
    ) -> list[str]:
        """The predicted class of every sample, in their order, by a consumer's model if one is named.

        `samples` is what `add` takes, without labels, or one image, text or array. In a workspace for texts a string is
        a text; give the path of a table as a `Path`.
        """
        from shardgraph.forget.intake.inputs import queries

        model = self.model(consumer)
        return [label for batch in queries(self.context, samples, columns) for label in model.predict(batch)]

    def scores(
        self, samples: Any, consumer: str | None = None, *, columns: Mapping[str, str] | None = None
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """SAFE(z) for every sample and class [n, K], in the order of the classes of `model(consumer)`.

        `samples` is what `predict` takes.
        """
        from shardgraph.forget.intake.inputs import queries

        model = self.model(consumer)
        return np.concatenate([model.scores(batch) for batch in queries(self.context, samples, columns)])

    def evaluate(self, consumer: str | None = None) -> dict[str, Any]:
        """Accuracy on the samples whose split is test: they are stored, can be forgotten, and are never trained on.

        A consumer's model is evaluated on all of them, also on those of classes and sources that it may not use.
        `unknown` counts the samples of classes that the model does not have: it cannot predict them.
        """
        units = [unit for unit in inventory.occupied_units(self.context.catalogue) if unit.startswith("test:")]
        if not units:
            raise InputError("there is no sample whose split is test; add some, then train")
        model, count, correct, unknown = self.model(consumer), 0, 0, 0
        for unit in units:  # one file in memory at a time
            samples = self.context.store.read(unit)
            correct += sum(a == b for a, b in zip(model.predict(samples), samples.labels, strict=True))
            unknown += sum(label not in model.classes for label in samples.labels)
            count += len(samples)
        return {"accuracy": correct / count, "samples": count, "correct": correct, "unknown": unknown}

    # Forgetting

    def plan(self, request: ForgetRequest | None = None, **named: Any) -> ForgetPlan:
        """What carrying out a request would rebuild and cost; changes nothing. Names may be given as to `forget`."""
        return plan_forget(self.context.store, self.config, self.context.keys, _request(request, named))

    def twins(self, ids: Iterable[str] | None = None, threshold: float = THRESHOLD) -> list[Twin]:
        """Samples with the same content: all pairs, or the twins of `ids`; exact ones, and near ones by cosine."""
        return find_twins(self.context.store, ids, threshold)

    def with_twins(self, request: ForgetRequest, threshold: float = THRESHOLD) -> ForgetRequest:
        """The request, extended by the twins of all samples that it names."""
        rows = self.plan(request).rows
        others = {twin.other for twin in self.twins([row.id for row in rows], threshold)} - {row.id for row in rows}
        return replace(request, samples=(*request.samples, *sorted(others))) if others else request

    def forget(
        self, order: ForgetRequest | ForgetPlan | None = None, *, instant: bool = False, **named: Any
    ) -> Certificate:
        """Forget, and return the certificate; for samples that were forgotten before, the certificate of that time.

        Instead of a request or a plan, lists of `samples`, `sources`, `subjects`, `shards` and `labels` may be given,
        and a `reason`.

        While a service runs, the request goes to its queue, and this waits until the service has carried it out; the
        service rebuilds what it withdraws, whatever `instant` is.
        """
        request = _request(order, named)
        context = self.context
        if context.is_served:
            if isinstance(order, ForgetPlan):
                _check_fresh(order, self.plan(request))
            return self.queue.wait_for(self.queue.submit(Submission(request, asker="command line")).number)
        with writing(context):
            plan = self.plan(request)
            if isinstance(order, ForgetPlan):
                _check_fresh(order, plan)
            if not plan.rows:
                context.catalogue.scrub()  # at that time a reader may have kept the log from being emptied
                return self.certificates.load(plan.already[-1])
            execute.check_inputs(context, plan, instant=instant)
            context.drop_models()
            return execute.carry_out(context, plan, instant)

    def repair(self) -> Certificate | None:
        """Rebuild the groups that an instant erasure withdrew; None if nothing was missing."""
        with writing(self.context):
            if not self.config.trained:
                return None
            self.context.check_numerics()
            return execute.repair(self.context)

    def resume(self) -> list[Certificate]:
        """Finish the placement and the erasures that a crash interrupted; does nothing while another process writes."""
        return recovery.resume(self.context)

    def verify(self, *, full: bool = False) -> Verification:
        """Check certificates, chain and files; with `full`, also rebuild everything in scratch files and compare."""
        context = self.context
        with writing(context):  # files that another process is writing would look damaged
            found = run_checks(context, full=full)
        if not full:
            return found

        def take() -> Rebuild:
            with writing(context):
                return rebuild_of(context)

        return Verification((*found.checks, compare_groups(context, take)), full)

    def status(self) -> dict[str, Any]:
        """Figures about what the workspace holds, what is served and what waits."""
        return status(self.context)


def _request(order: ForgetRequest | ForgetPlan | None, named: Mapping[str, Any]) -> ForgetRequest:
    """The request, as it was given or by the names that it asks for."""
    if order is not None and not named:
        return order.request if isinstance(order, ForgetPlan) else order
    from shardgraph.forget.intake.inputs import request_of

    return request_of(order, named)


def _check_fresh(order: ForgetPlan, now: ForgetPlan) -> None:
    """Raise unless a plan made now has the same samples and groups."""
    if (order.rows, order.groups) != (now.rows, now.groups):
        raise WorkspaceError("the plan is stale: the workspace changed since; plan again")
