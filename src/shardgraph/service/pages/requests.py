"""The request pages: the list, one request with its states as they are entered, cancel, retry."""

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from shardgraph.service.auth.access import CurrentRuntime, find_request
from shardgraph.service.auth.tokens import AUDITOR, OPERATOR, OWNER
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visitors import Asker, Form, Operator, PageRoute, Reader
from shardgraph.service.routes.requests import stream_states
from shardgraph.storage.tables import requests as table

ROWS = 50
PATH = (table.RECEIVED, table.INSTANT, table.ERASING, table.RETRAINING, table.VERIFIED, table.DONE)
DESCRIPTIONS = {
    table.RECEIVED: "The request is stored, and its samples are withheld.",
    table.INSTANT: "Nothing that saw the data is used for predictions any more.",
    table.ERASING: "The samples are removed from the files. From now on the request cannot be cancelled.",
    table.RETRAINING: "Adapters that saw the data are destroyed and rebuilt without it.",
    table.VERIFIED: "The rewritten files, the rebuilt adapters and the list of what is served have been checked.",
    table.DONE: "The certificate is written. The names of the samples are gone from the database; keyed hashes stay.",
}
PRIVATE_DESCRIPTIONS = DESCRIPTIONS | {  # groups that read the data privately stay, as long as their budget allows
    table.INSTANT: "Nothing that learned from the data directly is used for predictions any more. "
    "Groups that read it privately stay in use, within their budget.",
    table.RETRAINING: "Adapters that learned from the data directly, or whose budget is spent, "
    "are destroyed and rebuilt without it.",
}
router = APIRouter(prefix=f"{PREFIX}/requests", route_class=PageRoute, include_in_schema=False)
Number = Annotated[int, Path(ge=1, le=2**53)]


@router.get("")
def listing(
    request: Request,
    who: Reader,
    runtime: CurrentRuntime,
    state: Annotated[str, Query(max_length=20)] = "",
    before: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """Requests, the newest first; an owner sees its own."""
    states = (state,) if state in table.STATES else ()
    asker = who.name if who.role == OWNER else None
    found = runtime.queries.newest_requests(states=states, asker=asker, before=before, limit=ROWS + 1)
    more = found[ROWS - 1].number if len(found) > ROWS else None
    facts: dict[str, Any] = {"requests": found[:ROWS], "more": more, "states": table.STATES, "state": state}
    return render(request, "requests.html", **facts, paged=bool(before))


@router.get("/{number}")
def show(request: Request, number: Number, who: Reader, runtime: CurrentRuntime) -> Response:
    """One request and the states that it has been in; the script adds those that follow."""
    stored = find_request(runtime, number, who)
    while stored.history[-1][0] != stored.state:  # its state changed between the two statements that read it
        stored = find_request(runtime, number, who)
    descriptions = DESCRIPTIONS if runtime.queries.config.privacy is None else PRIVATE_DESCRIPTIONS
    facts: dict[str, Any] = {"stored": stored, "ahead": states_ahead(stored), "descriptions": descriptions}
    early = stored.state in (table.RECEIVED, table.INSTANT) or (stored.state == table.FAILED and stored.erasure is None)
    may_cancel = who.role != AUDITOR and early
    may_retry = who.role == OPERATOR and stored.state == table.FAILED
    return render(request, "request.html", **facts, may_cancel=may_cancel, may_retry=may_retry)


@router.get("/{number}/events")
async def events(
    number: Number,
    who: Reader,
    runtime: CurrentRuntime,
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> Response:
    """The states that the page does not show yet, as server-sent events, for its script."""
    await to_thread.run_sync(find_request, runtime, number, who)
    return stream_states(request, runtime, number, last_event_id or str(after), who)


@router.post("/{number}/cancel")
def cancel(number: Number, who: Asker, form: Form, runtime: CurrentRuntime) -> Response:
    """Cancel a request."""
    find_request(runtime, number, who)
    runtime.cancel(number)
    return RedirectResponse(f"{PREFIX}/requests/{number}", 303)


@router.post("/{number}/retry")
def retry(number: Number, who: Operator, form: Form, runtime: CurrentRuntime) -> Response:
    """Retry a failed request."""
    find_request(runtime, number, who)
    runtime.retry(number)
    return RedirectResponse(f"{PREFIX}/requests/{number}", 303)


def states_ahead(stored: table.Request) -> tuple[str, ...]:
    """The states that a request will enter if nothing fails; none after a final one."""
    return () if stored.state in table.FINAL else PATH[PATH.index(stored.state) + 1 :]
