"""What a workspace does for its consumers: rights, their models, and groups that are provisioned for them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shardgraph.errors import DamagedFile, InputError, ShardgraphError, WorkspaceBusy
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.erase import execute
from shardgraph.forget.proof.certificate import Certificate
from shardgraph.forget.rights.coverage import Menu, Reach, menu, reach_of
from shardgraph.forget.rights.model import Answer, Serving, serve, stamp_of
from shardgraph.forget.rights.provision import destroy_strays, keep_only, provision, provisioned_groups
from shardgraph.forget.rights.rights import Right, granted, revoked, right_of, rights_by_consumer, write_right
from shardgraph.forget.rights.shared_pass import SharedPass as Choir
from shardgraph.forget.site import Site
from shardgraph.learn.ensemble import Model
from shardgraph.learn.executors import best_device
from shardgraph.storage.samples import Samples


class Consumers(Site):
    """A site with consumers: each has a right over sources and shards, and a model of that part alone."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        super().__init__(path, **options)
        self._servings: dict[str, Serving] = {}
        self._choir: Choir | None = None

    def rights(self) -> dict[str, Right]:
        """Every consumer's right, by name."""
        return rights_by_consumer(self.catalogue)

    def grant(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """Let a consumer use these sources and shards, beside what it may use already; the right as it is then."""
        with self._writing():
            return self._change(granted(self.catalogue, consumer, sources, shards), "granted")

    def revoke(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """Take sources and shards from a consumer, or all that it has; the next prediction is without them.

        Provisioned groups that learned from more than is left are destroyed; `provision` trains those that are lacking.
        """
        with self._writing():
            return self._change(revoked(self.catalogue, consumer, sources, shards), "revoked")

    def planned(self, consumer: str, sources: Iterable[str] = (), shards: Iterable[str] = ()) -> Right:
        """What a consumer's right would be after a grant; changes nothing."""
        return granted(self.catalogue, consumer, sources, shards)

    def reach(self, right: Right | str) -> Reach:
        """How much of the workspace a right covers, granted or only thought of."""
        asked = right if isinstance(right, Right) else right_of(self.catalogue, right)
        found = self._menu(asked)
        rows = provisioned_groups(self.catalogue, asked.consumer)
        fit = [row for row in rows if row.name in found.lacking and found.lacking[row.name].key == row.key]
        return reach_of(found, len(fit))

    def provision(self, consumer: str) -> int:
        """Train the groups that a right lacks on what it allows, and keep them up to date; how many were trained."""
        with self._writing():
            right = right_of(self.catalogue, consumer)
            self.check_numerics()
            if not right.provision:
                with self.catalogue.transaction() as db:
                    db.execute("UPDATE consumers SET provision = 1 WHERE name = ?", (consumer,))
            bench = self._bench()
            trained = provision(self.store, self.config, bench.numerics, bench.choose, bench.progress, right)
            bench.log("provisioned", {"consumer": self.secrets.mark("consumer", consumer), "groups": trained})
            self.catalogue.scrub()
        return trained

    def model_for(self, consumer: str) -> Model:
        """The model of a consumer's right, whole in memory; made anew when the right or what it covers has changed."""
        return self._serving(consumer).model

    def scores_for(self, consumers: Sequence[str], samples: Samples) -> dict[str, Answer]:
        """What the models of several consumers say of the same samples, in one forward pass."""
        self._check_dims(samples)
        servings = {name: self._serving(name) for name in consumers}
        scores = self._choir_of(servings).scores(servings, samples)
        return {
            name: Answer(serving.model.classes, scores[name], serving.model.digest)
            for name, serving in servings.items()
        }

    def renew_servings(self) -> None:
        """Bring the models in memory up to date; one that cannot be is given up, for it may know what is gone."""
        for consumer in list(self._servings):
            try:
                self._serving(consumer)
            except ShardgraphError:
                self._servings.pop(consumer, None)
        if self._choir and any(m is not self._held(name) for name, m in self._choir.models.items()):
            self._choir = None

    def _held(self, consumer: str) -> Model | None:
        held = self._servings.get(consumer)
        return held.model if held else None

    def drop_models(self) -> None:
        super().drop_models()
        self._drop_servings()

    def _drop_servings(self) -> None:
        """Give up the models in memory: they may have seen what is leaving."""
        self._servings.clear()
        self._choir = None

    def _recover(self) -> list[Certificate]:
        destroy_strays(self.store)
        if execute.under_way(self._bench()):
            self._drop_servings()
        return super()._recover()

    def _distrust(self) -> None:
        super()._distrust()
        with self.catalogue.transaction() as db:
            db.execute("UPDATE provisioned SET key = ''")

    def _change(self, right: Right, event: str) -> Right:
        """Make this the right of its consumer, and drop what was provisioned for another."""
        lacking = self._menu(right).lacking if self.config.trained else {}
        detail = {"consumer": self.secrets.mark("consumer", right.consumer)}
        with self.catalogue.transaction() as db:
            write_right(db, right)
            keep_only(db, right.consumer, lacking)
            self.catalogue.log(db, event, detail | {"sources": len(right.sources), "shards": len(right.shards)})
        destroy_strays(self.store)
        self.catalogue.scrub()
        if not right.sources and not right.shards:
            self._servings.pop(right.consumer, None)
            self._choir = None
        return right

    def _menu(self, right: Right) -> Menu:
        numerics = Manifest.load(self.root).fingerprint or self.numerics
        return menu(self.store, self.config, numerics, right)

    def _serving(self, consumer: str) -> Serving:
        for _ in range(20):  # a writer may be moving files just now
            stamp = stamp_of(self.store, consumer)
            held = self._servings.get(consumer)
            if held is not None and held.stamp == stamp:
                return held
            try:
                found = serve(self.store, Config.load(self.root), stamp, best_device(), held.sums if held else None)
            except DamagedFile:
                if stamp_of(self.store, consumer) == stamp:
                    raise
                continue
            if stamp_of(self.store, consumer) == stamp:
                self._servings.pop(consumer, None)
                if found.settled:
                    self._servings[consumer] = found
                return found
        raise WorkspaceBusy(f"samples of {self.root} are being moved or withdrawn just now; try again")

    def _choir_of(self, servings: dict[str, Serving]) -> Choir:
        """A choir in which these models sing; the last one is kept while it serves."""
        models = {name: serving.model for name, serving in servings.items()}
        if self._choir is not None and all(self._choir.models.get(name) is model for name, model in models.items()):
            return self._choir
        parts = {
            name: {(group, adapters.digest): adapters for group, adapters in serving.adapters.items()}
            for name, serving in servings.items()
        }
        recipe, seed = self.config.the_recipe(), self.config.seed
        self._choir = Choir.assemble(models, parts, recipe, seed, best_device())
        return self._choir

    def _check_dims(self, samples: Samples) -> None:
        dims = (samples.tokens.shape[1], samples.features.shape[1])
        if dims != self.config.dims:
            raise InputError(f"this workspace holds tokens and features of {self.config.dims} dimensions, got {dims}")
