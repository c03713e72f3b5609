"""Everything that routes and pages read: requests, samples, rights, the graph, certificates, the ledger.

Each query is a few single statements and may be called from any thread. Who may see the answer is not decided here.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shardgraph.errors import InputError
from shardgraph.forget import (
    SEARCHABLE,
    Certificate,
    Config,
    ForgetPlan,
    ForgetRequest,
    Found,
    GraphView,
    Right,
    ShardView,
    Workspace,
    find_names,
    forgotten_as,
    right_of,
    select_within,
)
from shardgraph.storage.samples import TEST, Samples
from shardgraph.storage.tables import inventory, ledger, requests
from shardgraph.storage.tables.ledger import Event
from shardgraph.storage.tables.requests import Request, Waiting

KINDS = tuple(SEARCHABLE)  # what can be searched for: sample, subject, source


class Queries:
    """Read-only questions about one open workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._catalogue, self._keys = workspace, workspace.context.catalogue, workspace.context.keys

    @property
    def config(self) -> Config:
        """The workspace's configuration."""
        return self._workspace.config

    # Requests

    def requests(
        self, *, states: Sequence[str] = (), asker: str | None = None, after: int = 0, limit: int = 100
    ) -> list[Request]:
        """Requests by number, without their history."""
        return requests.requests_after(self._catalogue, states=states, asker=asker, after=after, limit=limit)

    def newest_requests(
        self, *, states: Sequence[str] = (), asker: str | None = None, before: int = 0, limit: int = 100
    ) -> list[Request]:
        """Requests from the newest on, without their history."""
        return requests.newest_requests(self._catalogue, states=states, asker=asker, before=before, limit=limit)

    def plan(self, request: ForgetRequest) -> ForgetPlan:
        """What a request would rebuild and cost."""
        return self._workspace.plan(request)

    def twins(self, ids: Iterable[str]) -> list[str]:
        """The other samples that hold the same content as one of these; this reads every sample."""
        ids = set(ids)
        return sorted({twin.other for twin in self._workspace.twins(ids)} - ids) if ids else []

    def with_twins(self, request: ForgetRequest) -> ForgetRequest:
        """The request extended by the twins of all that it names."""
        return self._workspace.with_twins(request)

    def samples_within(self, request: ForgetRequest, sources: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
        """For every (kind, name) of a request, the ids of its samples in these sources."""
        return select_within(self._catalogue, request, sources)

    def request_naming(self, asker: str, kind: str, name: str) -> int | None:
        """The number of the last request of this asker that named this; None if there is none."""
        return requests.latest_naming(self._catalogue, asker, self._keys.mark(kind, name))

    def was_asked_by(self, asker: str, kind: str, name: str, certificate: int | None = None) -> bool:
        """Whether a request of this asker (with this certificate, if one is given) named this."""
        mark = self._keys.mark(kind, name)
        return requests.was_named_by(self._catalogue, asker, mark, certificate)

    def waiting_samples(
        self, kind: str, names: Sequence[str], *, asker: str | None = None, sources: Sequence[str] | None = None
    ) -> dict[str, Waiting]:
        """Of these samples, subjects or sources, those with samples that wait to be forgotten.

        With `sources`, only samples of these count; with `asker`, only requests of this asker are named.
        """
        return requests.waiting_by_name(self._catalogue, SEARCHABLE[kind], names, asker=asker or "", sources=sources)

    # Samples and sources

    def find(self, kind: str, beginning: str, sources: Sequence[str] | None, limit: int) -> list[Found]:
        """Samples, subjects or sources whose name begins so; with `sources`, only those with samples there."""
        return find_names(self._catalogue, kind, beginning, sources, limit)

    def sample_ids(self, kind: str, name: str, sources: Sequence[str] | None = None) -> list[str]:
        """The samples of this id, subject or source; with `sources`, only those of these sources."""
        if sources is not None:
            return [row.id for row in inventory.find_within(self._catalogue, SEARCHABLE[kind], [name], sources)]
        return [row.id for row in inventory.find_by(self._catalogue, SEARCHABLE[kind], [name])]

    def sources_of(self, ids: Sequence[str]) -> dict[str, str]:
        """The source of each of these samples that is here."""
        return {row.id: row.source for row in inventory.find_by_id(self._catalogue, ids)}

    def sample_counts(self, sources: Sequence[str]) -> dict[str, int]:
        """The number of samples of each of these sources."""
        counts = inventory.count_by(self._catalogue, "source", sources)
        return {name: counts.get(name, 0) for name in sources}

    def source_names(self) -> list[str]:
        """Every named source that has samples or terms."""
        return list(self._workspace.sources.terms())

    def held_out_ids(self, limit: int) -> list[str]:
        """The first held-out samples that are not withheld."""
        withheld = requests.withheld_ids(self._catalogue)
        found = inventory.held_out_ids(self._catalogue, limit + len(withheld))
        return [name for name in found if name not in withheld][:limit]

    def held_out_sample(self, name: str) -> Samples:
        """A held-out sample with its embedding; an error if there is none of this name."""
        row = next(iter(inventory.find_by_id(self._catalogue, [name])), None)
        withheld = name in requests.withheld_ids(self._catalogue)
        if row is None or withheld or row.split != TEST or not row.unit.startswith("test:"):
            raise InputError("only held-out samples can be tried, and none has this name")
        samples = self._workspace.context.store.read(row.unit)
        return samples.take(np.array([samples.ids.index(name)]))

    # Rights

    def rights(self) -> dict[str, Right]:
        """Every consumer's right."""
        return self._workspace.consumers.rights()

    def right_of(self, consumer: str) -> Right:
        """One consumer's right; `UnknownConsumer` if it has none."""
        return right_of(self._catalogue, consumer)

    # The graph and the model

    def graph(self) -> GraphView:
        """The shard graph as it is now."""
        return self._workspace.views.graph()

    def shard(self, name: str) -> ShardView:
        """One shard: what it holds, which shards learn from it, what forgetting costs."""
        return self._workspace.views.shard(name)

    def status(self) -> dict[str, Any]:
        """The workspace on disk in figures; `models.LeasedModels.status` gives those of the served model."""
        return self._workspace.status()

    # Proofs

    @property
    def public_key(self) -> str:
        """The key that certificates are checked with, in hex."""
        return self._keys.public

    def certificate(self, number: int) -> Certificate:
        """A certificate by its number."""
        return self._workspace.certificates.load(number)

    def certificate_file(self, number: int) -> bytes:
        """A certificate's file as it lies on disk."""
        return self._workspace.certificates.path(number).read_bytes()

    def last_certificate(self) -> int:
        """The number of the last certificate; 0 before the first."""
        return self._workspace.certificates.last()

    def nonces(self, certificate: int, samples: Sequence[str]) -> dict[str, str]:
        """The nonces that open samples' entries in a certificate; who may have them is the caller's to check."""
        return self._workspace.certificates.nonces(certificate, samples)

    def request_that_erased(self, kind: str, name: str) -> int | None:
        """The number of a request whose certificate says that this name was forgotten."""
        certificate = forgotten_as(self._catalogue, self._keys, kind, name)
        return None if certificate is None else requests.done_under_certificate(self._catalogue, certificate)

    def events(self, after: int, limit: int) -> list[Event]:
        """Events of the ledger by number; `models.LeasedModels.events` hides accuracies that may not be shown."""
        return ledger.events_after(self._catalogue, after, limit)

    def serving_event(self, state: str) -> Event | None:
        """The event of the ledger that says what was served under a state id."""
        return ledger.find_serving(self._catalogue, state)
