"""Consumers: their rights, the models of those rights, and the groups that are trained for them."""

from collections.abc import Iterable, Sequence

from shardgraph.errors import DamagedFile, ShardgraphError, WorkspaceBusy
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.intake.admission import check_dims
from shardgraph.forget.rights.coverage import Available, Reach, available_groups, reach_of
from shardgraph.forget.rights.model import Answer, RightModel, Stamp, assemble_model, stamp_of
from shardgraph.forget.rights.provision import destroy_strays, keep_only, provision, provisioned_groups
from shardgraph.forget.rights.rights import Right, granted, revoked, right_of, rights_by_consumer
from shardgraph.forget.rights.shared_pass import SharedPass
from shardgraph.learn.ensemble import Model
from shardgraph.learn.executors import best_device
from shardgraph.storage.samples import Samples
from shardgraph.storage.tables import ledger, parties

ATTEMPTS = 20  # to assemble a model while a writer moves files


class Consumers:
    """Each consumer has a right over sources and shards, and a model of that part alone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._models: dict[str, RightModel] = {}
        self._shared: SharedPass | None = None
        context.add_cache(self.drop)

    def rights(self) -> dict[str, Right]:
        """Every consumer's right, by name."""
        return rights_by_consumer(self._context.catalogue)

    def grant(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """Let a consumer use these sources and shards in addition to its right; returns the new right."""
        with writing(self._context):
            return self._change(granted(self._context.catalogue, consumer, sources, shards), "granted")

    def revoke(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """Remove sources and shards from a consumer's right, or all of them; the next prediction does not use them.

        Provisioned groups that learned from more than the new right allows are destroyed; `provision` trains new ones.
        """
        with writing(self._context):
            return self._change(revoked(self._context.catalogue, consumer, sources, shards), "revoked")

    def preview(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """The right that a grant would give; changes nothing."""
        return granted(self._context.catalogue, consumer, sources, shards)

    def reach(self, right: Right | str) -> Reach:
        """How much of the workspace a right covers; the right need not be granted."""
        asked = right if isinstance(right, Right) else right_of(self._context.catalogue, right)
        found = self._available(asked)
        rows = provisioned_groups(self._context.catalogue, asked.consumer)
        fit = [row for row in rows if row.name in found.lacking and found.lacking[row.name].key == row.key]
        return reach_of(found, len(fit))

    def provision(self, consumer: str) -> int:
        """Train the groups that a right lacks on its data, and keep them up to date; returns how many were trained."""
        context = self._context
        with writing(context):
            right = right_of(context.catalogue, consumer)
            context.check_numerics()
            if not right.provision:
                with context.catalogue.transaction() as transaction:
                    parties.set_provision(transaction, consumer)
            trained = provision(context, right)
            context.record_event("provisioned", {"consumer": self._mark(consumer), "groups": trained})
            context.catalogue.scrub()
        return trained

    def model(self, consumer: str) -> Model:
        """The model of a consumer's right, in memory; assembled again when the right or its data has changed."""
        self._context.check_log()
        return self._model(consumer).model

    def scores(self, consumers: Sequence[str], samples: Samples) -> dict[str, Answer]:
        """The scores of several consumers' models for the same samples, from one forward pass."""
        self._context.check_log()
        check_dims(samples, self._context.config)
        models = {name: self._model(name) for name in consumers}
        scores = self._shared_pass(models).scores(models, samples)
        return {name: Answer(held.model.classes, scores[name], held.model.digest) for name, held in models.items()}

    def renew(self) -> None:
        """Update the models in memory; one that cannot be updated is dropped: it may have seen erased samples."""
        for consumer in list(self._models):
            try:
                self._model(consumer)
            except ShardgraphError:
                self._models.pop(consumer, None)
        held = {name: found.model for name, found in self._models.items()}
        if self._shared and any(model is not held.get(name) for name, model in self._shared.models.items()):
            self._shared = None

    def drop(self) -> None:
        """Drop the models in memory: they may have seen the samples that are about to be erased."""
        self._models.clear()
        self._shared = None

    def _change(self, right: Right, event: str) -> Right:
        """Store a consumer's right, and drop the provisioned groups that do not fit it."""
        context = self._context
        lacking = self._available(right).lacking if context.config.trained else {}
        detail = {"consumer": self._mark(right.consumer), "sources": len(right.sources), "shards": len(right.shards)}
        with context.catalogue.transaction() as transaction:
            parties.save_grant(transaction, right.to_grant())
            keep_only(transaction, right.consumer, lacking)
            ledger.add_event(transaction, event, detail, context.now())
        destroy_strays(context.store)
        context.catalogue.scrub()
        if not right.sources and not right.shards:
            self._models.pop(right.consumer, None)
            self._shared = None
        return right

    def _mark(self, consumer: str) -> str:
        return self._context.keys.mark("consumer", consumer)

    def _available(self, right: Right) -> Available:
        numerics = Manifest.load(self._context.root).fingerprint or self._context.numerics
        return available_groups(self._context.store, self._context.config, numerics, right)

    def _model(self, consumer: str) -> RightModel:
        store, root = self._context.store, self._context.root
        for _ in range(ATTEMPTS):
            stamp = stamp_of(store, consumer)
            held = self._models.get(consumer)
            if held is not None and held.stamp == stamp:
                return held
            found = self._assemble(stamp, held)
            if found is not None and stamp_of(store, consumer) == stamp:
                self._models.pop(consumer, None)
                if found.settled:
                    self._models[consumer] = found
                return found
        raise WorkspaceBusy(f"samples of {root} are being moved or withdrawn just now; try again")

    def _assemble(self, stamp: Stamp, held: RightModel | None) -> RightModel | None:
        """The model of a right; None if its stamp changed meanwhile, so that a file did not match."""
        store = self._context.store
        try:
            config = Config.load(self._context.root)
            return assemble_model(store, config, stamp, best_device(), held.sums if held else None)
        except DamagedFile:
            if stamp_of(store, stamp.right.consumer) == stamp:
                raise
            return None

    def _shared_pass(self, models: dict[str, RightModel]) -> SharedPass:
        """One forward pass for all these models; the last one is kept while it covers them."""
        wanted = {name: held.model for name, held in models.items()}
        if self._shared is not None and all(self._shared.models.get(name) is model for name, model in wanted.items()):
            return self._shared
        parts = {
            name: {(group, adapters.digest): adapters for group, adapters in held.adapters.items()}
            for name, held in models.items()
        }
        config = self._context.config
        self._shared = SharedPass.assemble(wanted, parts, config.the_recipe(), config.seed, best_device())
        return self._shared
