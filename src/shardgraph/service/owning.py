"""What an owner may ask for: samples of its own sources. Others' are, to an owner, not there."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardgraph.errors import UnknownSample
from shardgraph.forget.erase.plan import selected
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.proof.certificate import opens
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Entry
from shardgraph.forget.workspace import Workspace
from shardgraph.service.tokens import OWNER, Caller

FAILED = (
    "it could not be carried out, and what it names stays out of service; the operator is told why, and can try again: "
    "ask the operator, with this request's number"
)


def check_owned(workspace: Workspace, who: Caller, request: ForgetRequest) -> None:
    """Raise unless all that the request names is the caller's; others', forgotten or not, and what was never here are
    refused in the same words."""
    if who.role == OWNER and not _owned(workspace, who, request):
        raise UnknownSample("never seen here among the sources of this token")


def _owned(workspace: Workspace, who: Caller, request: ForgetRequest) -> bool:
    rest, rides = workspace.without_leaving(request)
    leaving = set(request.selectors()) - set(rest.selectors())
    try:
        rows, gone = selected(workspace.store, workspace.secrets, rest) if rest.selectors() or not rides else ((), {})
    except UnknownSample:
        return False
    return all(row.source in who.sources for row in rows) and all(
        may_know(workspace, who, *one) for one in (*leaving, *gone)
    )


def own_only(workspace: Workspace, who: Caller, ids: Iterable[str]) -> list[str]:
    """Those of the samples that the caller may know of."""
    ids = list(ids)
    if who.role != OWNER:
        return ids
    return [row.id for row in workspace.catalogue.rows("id", ids) if row.source in who.sources]


def may_know(workspace: Workspace, who: Caller, kind: str, name: str) -> bool:
    """Whether the caller may know that this was forgotten: an owner if she asked for it, or it is a source of hers.

    That others asked in the same batch, and are named by the same certificate, makes their samples no business of hers.
    """
    if who.role != OWNER or (kind == "sources" and name in who.sources):
        return True
    return queue.asked_by(workspace.catalogue, who.name, workspace.secrets.mark(kind, name))


def as_seen(entry: Entry, who: Caller | None) -> Entry:
    """An entry as the caller may see it: why it failed may name others' data, and is not for its owner."""
    hidden = entry.failure and (who is None or who.role == OWNER)
    return replace(entry, failure=FAILED) if hidden else entry


def nonces_for(workspace: Workspace, who: Caller, certificate: int, samples: Sequence[str]) -> dict[str, str]:
    """The nonces that open samples' entries in a certificate; an owner's are those of what she asked for in it."""
    found, given = workspace.certificate(certificate), workspace.nonces(certificate, samples)
    for name, nonce in given.items():
        mark = workspace.secrets.mark("samples", name)
        hers = who.role != OWNER or queue.asked_by(workspace.catalogue, who.name, mark, certificate)
        if not hers or not opens(found, name, nonce):
            raise UnknownSample(f"certificate {certificate} does not speak of {name!r}", [name])
    return given
