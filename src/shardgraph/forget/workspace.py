"""Workspace: a folder that learns, predicts, forgets exactly, and can prove it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from shardgraph.embedding.readers.base import Reader
from shardgraph.errors import ConfigError, WorkspaceBusy, WorkspaceError, check_list
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.erase import execute, recovery
from shardgraph.forget.erase.plan import Copies, ForgetPlan, ForgetRequest, exact_copies, plan_forget
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.erase.twins import THRESHOLD, Twin, find_twins
from shardgraph.forget.intake.copying import OnLeftOut, new_folder, take_over, write_empty
from shardgraph.forget.intake.embed import OnBad, OnPresent, embed_arriving, kept_location, new_backbone
from shardgraph.forget.intake.first_training import place_and_build
from shardgraph.forget.intake.sources import Sources
from shardgraph.forget.intake.stream import add_parts
from shardgraph.forget.proof.certificate import Certificate, Certificates
from shardgraph.forget.proof.verify import Rebuild, Verification, compare_groups, rebuild_of, run_checks
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.queue.request_queue import RequestQueue
from shardgraph.forget.rights.consumers import Consumers
from shardgraph.forget.status import status
from shardgraph.forget.views.served import ServedModel, evaluate_model, served_key
from shardgraph.forget.views.views import Views
from shardgraph.graph import Topology
from shardgraph.learn.ensemble import Model
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

if TYPE_CHECKING:
    from shardgraph.learn.private.accounting.budget import Budget
    from shardgraph.learn.private.accounting.terms import PrivacyTerms

ATTEMPTS = 20  # to answer with one model while others replace it
T = TypeVar("T")


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
        dtype: str | None = None,
        copy_from: str | Path | None = None,
        on_left_out: OnLeftOut | None = None,
        **options: Any,
    ) -> Self:
        """Create a workspace and open it; the folder must be new or empty.

        `backbone` is the name of a backbone, or what `backbone_identity` returned; by default embeddings are added.
        `backbone_path` is where it lies, if its name does not say it. The workspace keeps the absolute path. Tokens
        are stored as float16 by default.

        `copy_from` is another workspace whose samples, backbone and dtype are taken over: its keys, certificates,
        models and requests are not. It is complete or not at all. Samples whose request to be forgotten waits are left
        out, and `on_left_out` is called with their number.
        """
        root = new_folder(Path(path))
        if dtype not in (None, "float16", "float32"):
            raise ConfigError(f"dtype must be float16 or float32, got {dtype!r}")
        if classes is not None:
            check_list(classes, "the classes of a workspace")
        declared = None if classes is None else tuple(sorted(set(classes)))

        if copy_from is None:
            kind = dtype or "float16"
            identity, location = new_backbone(backbone, backbone_path, kind)
            write_empty(root, Config(seed, identity, kind, declared), location)
            return cls(root, **options)
        if backbone is not None or dtype is not None or backbone_path is not None:
            raise ConfigError(
                "a copy has the backbone and the dtype of the workspace that it is copied from; give none"
            )
        with cls(copy_from) as source:
            config = Config(seed, source.config.backbone, source.config.dtype, declared)
            location = kept_location(source.root)

            def make(folder: Path) -> Workspace:
                write_empty(folder, config, location)
                return cls(folder, **options)

            take_over(root, source, make, on_left_out)
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
            return place_and_build(context, topology, recipe, privacy, budget, rebuild=rebuild)

    # Predicting

    def model(self, consumer: str | None = None) -> Model:
        """The model that may be served now, loaded into memory; a consumer's model if one is named."""
        self.context.check_log()
        return self.served.model() if consumer is None else self.consumers.model(consumer)

    def predict(
        self, samples: Any, consumer: str | None = None, *, columns: Mapping[str, str] | None = None
    ) -> list[str]:
        """The predicted class of every sample, in their order, by a consumer's model if one is named.

        `samples` is what `add` takes, without labels, or one image, text or array. In a workspace for texts a string is
        a text; give the path of a table as a `Path`.
        """
        from shardgraph.forget.intake.inputs import queries

        batches = list(queries(self.context, samples, columns))
        return self._answer(consumer, lambda model: [label for batch in batches for label in model.predict(batch)])

    def scores(
        self, samples: Any, consumer: str | None = None, *, columns: Mapping[str, str] | None = None
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """SAFE(z) for every sample and class [n, K], in the order of the classes of `model(consumer)`.

        `samples` is what `predict` takes.
        """
        from shardgraph.forget.intake.inputs import queries

        batches = list(queries(self.context, samples, columns))
        return self._answer(consumer, lambda model: np.concatenate([model.scores(batch) for batch in batches]))

    def evaluate(self, consumer: str | None = None, sources: Collection[str] | None = None) -> dict[str, Any]:
        """Accuracy on the samples whose split is test: they are stored, can be forgotten, and are never trained on.

        A consumer's model is evaluated on all of them, also on those of classes and sources that it may not use; with
        `sources`, every model is evaluated on the samples of these sources only. Samples that wait to be forgotten are
        left out. `unknown` counts the samples of classes that the model does not have: it cannot predict them.
        `classes` holds the accuracy of every class that has test samples, and `macro_accuracy` is their mean.
        """
        return self._answer(consumer, lambda model: evaluate_model(self.context, model, sources=sources))

    def _answer(self, consumer: str | None, compute: Callable[[Model], T]) -> T:
        """What `compute` makes of the model; made anew if a request or another process changed what may be served."""
        for _ in range(ATTEMPTS):
            key = served_key(self.context.store)
            found = compute(self.model(consumer))
            if served_key(self.context.store) == key:
                return found
        raise WorkspaceBusy(f"the model of {self.root} was replaced {ATTEMPTS} times while it was used; try again")

    # Forgetting

    def plan(self, request: ForgetRequest | None = None, **named: Any) -> ForgetPlan:
        """What carrying out a request would rebuild and cost; changes nothing. Names may be given as to `forget`."""
        self.context.check_log()
        return plan_forget(self.context.store, self.config, self.context.keys, _request(request, named))

    def exact_copies(self, plan: ForgetPlan) -> Copies:
        """The samples that stay and hold exactly what one of a plan's samples holds; found by an index."""
        return exact_copies(self.context.store, self.context.keys, plan.rows)

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
        with writing(context, honour=False):  # files that another process is writing would look damaged
            found = run_checks(context, full=full)
        if not full:
            return found

        def take() -> Rebuild:
            with writing(context, honour=False):
                return rebuild_of(context)

        return Verification((*found.checks, compare_groups(context, take)), full)

    def replace_secret(self) -> None:
        """Replace the secret under which forgotten names are hashed: nobody can tell any more what was forgotten."""
        with writing(self.context):
            self.context.replace_secret()

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
