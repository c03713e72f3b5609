"""What an owner may ask for: samples of its own sources. Others' are, to an owner, not there."""

from collections.abc import Iterable

from shardgraph.errors import UnknownSample
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
    certified = orders.already if orders else ()
    if strange or not all(_asked(workspace, "certificate", number, who) for number in certified):
        raise UnknownSample("never seen here among the sources of this token", strange)
    if rides is not None and not _asked(workspace, "request", rides, who):
        raise UnknownSample("never seen here among the sources of this token")


def own_only(workspace: Workspace, who: Caller, ids: Iterable[str]) -> list[str]:
    """Those of the samples that the caller may know of."""
    ids = list(ids)
    if who.role != OWNER:
        return ids
    return [row.id for row in workspace.catalogue.rows("id", ids) if row.source in who.sources]


def _asked(workspace: Workspace, column: str, number: int, who: Caller) -> bool:
    found = workspace.catalogue.one(f"SELECT 1 FROM queue WHERE {column} = ? AND asker = ?", number, who.name)
    return found is not None
