"""A request from its first state to its last: the list, one request, its states as they come, taking it back."""

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Entry
from shardgraph.service.access import TheOffice
from shardgraph.service.asking import entry_for
from shardgraph.service.events import stream
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visiting import Asker, Operator, Page, Reader, Sent
from shardgraph.service.tokens import AUDITOR, OPERATOR, OWNER

ROWS = 50
PATH = (queue.RECEIVED, queue.INSTANT, queue.ERASING, queue.RETRAINING, queue.VERIFIED, queue.DONE)
WORDS = {
    queue.RECEIVED: "It is written down, with what it withholds.",
    queue.INSTANT: "Nothing that saw the data is used for predictions any more.",
    queue.ERASING: "The samples leave the files. From here on it cannot be taken back.",
    queue.RETRAINING: "Adapters that saw the data are destroyed, and built again without it.",
    queue.VERIFIED: "Certificates, files and model were checked.",
    queue.DONE: "The certificate is written; no trace is left in the journal.",
}
PRIVATE_WORDS = WORDS | {  # where groups that read the data privately stay, as long as their budget allows
    queue.INSTANT: "Nothing that learned from the data directly is used for predictions any more. "
    "What read it privately stays in use, within its budget.",
    queue.RETRAINING: "Adapters that learned from the data directly, or whose budget is spent, "
    "are destroyed, and built again without it.",
}
router = APIRouter(prefix=f"{PREFIX}/requests", route_class=Page, include_in_schema=False)
Number = Annotated[int, Path(ge=1, le=2**53)]


@router.get("")
def listing(
    request: Request,
    who: Reader,
    office: TheOffice,
    state: Annotated[str, Query(max_length=20)] = "",
    before: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """Requests, the newest first; an owner sees its own."""
    chosen = (state,) if state in queue.STATES else ()
    asker = who.name if who.role == OWNER else None
    found = queue.newest(office.reader.catalogue, states=chosen, asker=asker, before=before, limit=ROWS + 1)
    more = found[ROWS - 1].number if len(found) > ROWS else None
    facts: dict[str, Any] = {"entries": found[:ROWS], "more": more, "states": queue.STATES, "state": state}
    return render(request, "requests.html", **facts, paged=bool(before))


@router.get("/{number}")
def one(request: Request, number: Number, who: Reader, office: TheOffice) -> Response:
    """One request, and the states that it has been in; the script adds those that follow."""
    entry = entry_for(office, number, who)
    while entry.history[-1][0] != entry.state:  # it moved on between the looks at its state and at its history
        entry = entry_for(office, number, who)
    words = WORDS if office.reader.config.privacy is None else PRIVATE_WORDS
    facts: dict[str, Any] = {"entry": entry, "ahead": ahead(entry), "words": words}
    early = entry.state in (queue.RECEIVED, queue.INSTANT) or (entry.state == queue.FAILED and entry.request is None)
    may_cancel = who.role != AUDITOR and early
    may_retry = who.role == OPERATOR and entry.state == queue.FAILED
    return render(request, "request.html", **facts, may_cancel=may_cancel, may_retry=may_retry)


def ahead(entry: Entry) -> tuple[str, ...]:
    """The states that an entry has yet to enter, if all goes well; none after a last one."""
    return () if entry.state in queue.FINAL else PATH[PATH.index(entry.state) + 1 :]


@router.get("/{number}/events")
async def events(
    number: Number,
    who: Reader,
    office: TheOffice,
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> Response:
    """The states after those that the page shows already, as server-sent events, for its script."""
    await to_thread.run_sync(entry_for, office, number, who)
    return stream(request, office, number, last_event_id or str(after), who)


@router.post("/{number}/cancel")
def cancel(number: Number, who: Asker, sent: Sent, office: TheOffice) -> Response:
    """Take a request back."""
    entry_for(office, number, who)
    office.cancel(number)
    return RedirectResponse(f"{PREFIX}/requests/{number}", 303)


@router.post("/{number}/retry")
def retry(number: Number, who: Operator, sent: Sent, office: TheOffice) -> Response:
    """Let a failed request try again."""
    entry_for(office, number, who)
    office.retry(number)
    return RedirectResponse(f"{PREFIX}/requests/{number}", 303)
