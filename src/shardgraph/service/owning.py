"""What an owner may ask for: samples of its own sources. Others' are, to an owner, not there."""

from collections.abc import Iterable, Sequence

from shardgraph.errors import UnknownSample
from shardgraph.forget import queue
from shardgraph.forget.certificate import opens
from shardgraph.forget.request import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.service.tokens import OWNER, Caller


def check_owned(workspace: Workspace, who: Caller, request: ForgetRequest) -> None:
    """Raise unless all that the request names is the caller's; what it may not know of counts as never seen."""
    if who.role != OWNER:
        return
    rest, rides = workspace.without_leaving(request)
    orders = workspace.plan(rest) if rest.selectors() or rides is None else None
    strange = [row.id for row in orders.rows if row.source not in who.sources] if orders else []
    leaving = set(request.selectors()) - set(rest.selectors())
    if strange or not all(may_know(workspace, who, *one) for one in (*leaving, *(orders.gone if orders else ()))):
        raise UnknownSample("never seen here among the sources of this token", strange)


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


def nonces_for(workspace: Workspace, who: Caller, certificate: int, samples: Sequence[str]) -> dict[str, str]:
    """The nonces that open samples' entries in a certificate; an owner's are those of what she asked for in it."""
    found, given = workspace.certificate(certificate), workspace.nonces(certificate, samples)
    for name, nonce in given.items():
        mark = workspace.secrets.mark("samples", name)
        hers = who.role != OWNER or queue.asked_by(workspace.catalogue, who.name, mark, certificate)
        if not hers or not opens(found, name, nonce):
            raise UnknownSample(f"certificate {certificate} does not speak of {name!r}", [name])
    return given
