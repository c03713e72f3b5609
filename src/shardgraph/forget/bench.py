"""The bench: what carrying out work on a workspace needs, handed from verb to verb."""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from shardgraph.forget.build.build import Choose, Progress, build, graph_over
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.proof.keys import Secrets
from shardgraph.forget.rights.provision import provision_all
from shardgraph.graph import ShardGraph
from shardgraph.learn.numerics import Numerics
from shardgraph.storage.store import Store

PUBLISHING = "publishing"  # the ledger's event for a model that the manifest is about to name
MODEL = "json_extract(detail, '$.model')"


@dataclass(frozen=True)
class Bench:
    """An open workspace's parts, and how to run, check and report work."""

    store: Store
    config: Config
    secrets: Secrets
    numerics: Numerics
    choose: Choose
    progress: Progress
    check: Callable[["Bench", Iterable[str]], str] = lambda bench, units: ""  # what is wrong, "" if nothing is
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def build(self, classes: tuple[str, ...] | None = None) -> Manifest:
        """Build what is missing, and publish it; then what is missing under rights that are provisioned.

        `classes` are those of the prototypes, where the caller has just written them.
        """
        manifest = build(self.store, self.config, self.numerics, self.choose, self.progress, self.announce, classes)
        provision_all(self.store, self.config, self.numerics, self.choose, self.progress)
        return manifest

    def announce(self, model: str) -> None:
        """Tell the ledger which model is about to be published, so that a crash in between leaves no riddle."""
        last = self.store.catalogue.one(f"SELECT {MODEL} FROM ledger WHERE {MODEL} IS NOT NULL ORDER BY number DESC")
        if not last or last[0] != self.secrets.mark(model):
            self.log(PUBLISHING, {"model": self.secrets.mark(model)})

    def log(self, event: str, detail: dict) -> None:
        """Add an event to the ledger."""
        with self.store.catalogue.transaction() as db:
            self.note(db, event, detail)

    def note(self, db: sqlite3.Connection, event: str, detail: dict) -> None:
        """Add an event to the ledger, in the caller's transaction."""
        self.store.catalogue.log(db, event, detail, self.now())

    def graph(self) -> ShardGraph:
        """The shard graph as it is now."""
        units = self.store.catalogue.all("SELECT DISTINCT unit FROM samples")
        return graph_over((unit for (unit,) in units), self.config)

    @property
    def same_numerics(self) -> bool:
        """Whether the served model was built with the numerics of this process."""
        built = Manifest.load(self.store.root).fingerprint
        return not built or built == self.numerics
