"""The ledger: every event of a workspace, in order, and what can be read from it. No event names a sample.

Events stand in the catalogue. What they say of models and configurations is said in keyed hashes (marks), so that
nobody without the key can test whether a candidate was in an earlier model.
"""

from collections.abc import Iterable
from typing import Any

from shardgraph.forget.context import Context
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import erasures, events

PUBLISHING = "publishing"
"""The event of a model that the manifest is about to name."""


def record_event(context: Context, event: str, detail: dict[str, Any]) -> None:
    """Add an event in a transaction of its own."""
    with context.catalogue.transaction() as transaction:
        events.record(transaction, event, detail, context.now())


def announce_model(context: Context, model: str) -> None:
    """Record which model is about to be published, so that a crash in between leaves no model without an event."""
    mark = context.keys.mark(model)
    if [found for _, found in events.last_models(context.catalogue, 1)] != [mark]:
        record_event(context, PUBLISHING, {"model": mark})


def published_models(catalogue: Catalogue) -> list[str]:
    """The marks of the models that the manifest may name: the last one, and the one before an announced one."""
    found = events.last_models(catalogue, 2)
    possible = found if found and found[0][0] == PUBLISHING else found[:1]
    return [model for _, model in possible]


def last_certificate(catalogue: Catalogue) -> int:
    """The number of the last certificate that the ledger knows; 0 before the first."""
    return events.last_certificate(catalogue)


def forgotten_before(catalogue: Catalogue, keys: Keys, named: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Those of the (kind, name) pairs that were forgotten before, with the certificate that says so."""
    marks = {keys.mark(kind, name): (kind, name) for kind, name in named}
    found = erasures.certificates_of(catalogue, list(marks))
    return {marks[mark]: found[mark] for mark in marks if mark in found}
