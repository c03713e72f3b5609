"""Routes of forget requests: preview, submit, list, look, cancel, try again, certificate, nonces."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Path, Query
from fastapi.responses import JSONResponse

from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Entry, Submission
from shardgraph.service.access import Asker, Operator, Reader, TheOffice
from shardgraph.service.office import Office
from shardgraph.service.owning import as_seen, check_owned, nonces_for, own_only
from shardgraph.service.problems import documented
from shardgraph.service.schemas import Ask, Nonces, Opening, Preview, Selection, StateName, Ticket, Tickets
from shardgraph.service.timing import expected_seconds
from shardgraph.service.tokens import OWNER, Caller

router = APIRouter(prefix="/requests", tags=["forget requests"])
Number = Annotated[int, Path(ge=1, le=2**53, description="The request's number.", examples=[12])]
Key = Annotated[
    str | None,
    Header(min_length=1, max_length=200, description="Sent again with the same request, it gives the same answer."),
]
REFUSED = documented(401, 403, 404, 422)


@router.post("/preview", responses=documented(401, 403, 404, 409, 413, 422, 503))
def preview(what: Selection, who: Asker, office: TheOffice) -> Preview:
    """What a forget would rebuild, and which twins would stay; changes nothing."""
    return previewed(office, chosen(office, what, who), who)


@router.post("", status_code=202, responses=documented(401, 403, 404, 409, 413, 422, 503))
def submit(what: Ask, who: Asker, office: TheOffice, idempotency_key: Key = None) -> Ticket:
    """Accept a forget request: when this answers, nothing that saw the data is served any more; groups that read it
    through private edges stay, within their budget."""
    mark = office.reader.secrets.mark
    key = mark("idempotency", who.name, idempotency_key) if idempotency_key else None
    body = mark("body", json.dumps(what.model_dump(mode="json"), sort_keys=True))
    if key and (before := queue.repeated(office.reader.catalogue, key, body)):
        return Ticket.of(as_seen(office.accepted(before), who))
    request = chosen(office, what, who, what.reason)
    return Ticket.of(as_seen(office.submit(Submission(request, who.name, what.deadline, key, body)), who))


@router.get("", responses=documented(401, 403, 422))
def listing(
    who: Reader,
    office: TheOffice,
    state: Annotated[list[StateName], Query(description="Only those in these states.")] = [],  # noqa: B006
    asker: Annotated[str | None, Query(max_length=64, description="Only those of this token's name.")] = None,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only those with a higher number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Tickets:
    """Requests by number, page by page; an owner sees its own."""
    asker = who.name if who.role == OWNER else asker
    found = queue.listed(office.reader.catalogue, states=state, asker=asker, after=after, limit=limit + 1)
    page = found[:limit]
    more = page[-1].number if len(found) > limit else None
    return Tickets(requests=[Ticket.of(as_seen(entry, who)) for entry in page], next=more)


@router.get("/{number}", responses=REFUSED)
def look(number: Number, who: Reader, office: TheOffice) -> Ticket:
    """One request: its state, and every state it has been in."""
    return Ticket.of(entry_for(office, number, who))


@router.post("/{number}/cancel", responses=documented(401, 403, 404, 409, 413, 422, 503))
def cancel(number: Number, who: Asker, office: TheOffice) -> Ticket:
    """Take a request back, until its erasing starts; what was withheld for it is served again."""
    entry_for(office, number, who)
    return Ticket.of(office.cancel(number))


@router.post("/{number}/retry", responses=documented(401, 403, 404, 409, 413, 422, 503))
def retry(number: Number, who: Operator, office: TheOffice) -> Ticket:
    """Let a failed request try again, once what it complained of is mended."""
    entry_for(office, number, who)
    return Ticket.of(office.retry(number))


@router.get("/{number}/certificate", responses=documented(401, 403, 404, 409, 422))
def certificate(number: Number, who: Reader, office: TheOffice) -> dict[str, Any]:
    """The signed certificate, as `shardgraph verify-certificate` reads it."""
    found = office.reader.certificate(certified(office, number, who))
    name = f'attachment; filename="certificate-{found.number:06d}.json"'
    return JSONResponse(found.to_json(), headers={"Content-Disposition": name})  # type: ignore[return-value]


@router.post("/{number}/nonces", responses=documented(401, 403, 404, 409, 413, 422))
def nonces(number: Number, what: Opening, who: Asker, office: TheOffice) -> Nonces:
    """The nonces that open samples' entries in the request's certificate, for the one who asked."""
    found = certified(office, number, who)
    return Nonces(certificate=found, nonces=nonces_for(office.reader, who, found, what.samples))


def previewed(office: Office, request: ForgetRequest, who: Caller, *, twins: bool = True) -> Preview:
    """The figures of a request that this caller may make, and the twins that it may know of: finding them reads all."""
    with office.previews.one():
        orders, reader = office.reader.plan(request), office.reader
        ids = {row.id for row in orders.rows} if twins else set()
        others = sorted({twin.other for twin in reader.twins(ids)} - ids) if ids else []
        figures = orders.to_json() | {"twins": own_only(reader, who, others)}
        return Preview(**figures, seconds=expected_seconds(reader.catalogue))


def entry_for(office: Office, number: int, who: Caller) -> Entry:
    """An entry as this caller may see it; what it may not see is not there."""
    catalogue = office.reader.catalogue
    asker = catalogue.one("SELECT asker FROM queue WHERE number = ?", number)
    if asker is None or (who.role == OWNER and asker != (who.name,)):
        raise HTTPException(404, f"there is no request {number}")
    return as_seen(queue.find(catalogue, number), who)


def certified(office: Office, number: int, who: Caller) -> int:
    """The number of the certificate of an entry that this caller may see; an error until it is done."""
    entry = entry_for(office, number, who)
    if entry.certificate is None or entry.state != queue.DONE:
        raise HTTPException(409, f"request {number} is {entry.state}; its certificate comes when it is done")
    return entry.certificate


def chosen(office: Office, what: Selection, who: Caller, reason: str = "") -> ForgetRequest:
    """The request that the selection makes, with twins where they were asked for; an owner's names its own alone."""
    request = what.to_request(reason)
    check_owned(office.reader, who, request)
    if not what.twins:
        return request
    with office.previews.one():
        wider = office.reader.with_twins(request)
    more = own_only(office.reader, who, [name for name in wider.samples if name not in request.samples])
    return ForgetRequest(
        (*request.samples, *more), request.sources, request.subjects, request.shards, request.labels, reason
    )
