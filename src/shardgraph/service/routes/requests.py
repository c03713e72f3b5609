"""Routes of forget requests: preview, submit, list, follow, cancel, retry, certificate, nonces."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse

from shardgraph.forget import Submission
from shardgraph.service.auth.access import (
    Asker,
    CurrentRuntime,
    Operator,
    Reader,
    certificate_number,
    find_request,
    limit_to_owned,
    nonces_for,
    only_owned,
    redact,
)
from shardgraph.service.auth.tokens import OWNER, Caller
from shardgraph.service.error_responses import documented
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.service.schemas import (
    NewRequest,
    NonceRequest,
    Nonces,
    Preview,
    RequestPage,
    RequestStatus,
    Selection,
    StateName,
)
from shardgraph.storage.tables.requests import DONE, FAILED, FINAL
from shardgraph.storage.tables.requests import Request as StoredRequest

INTERVAL, HEARTBEAT = 0.2, 15.0  # seconds between two looks at a followed request, and between two comments
router = APIRouter(prefix="/requests", tags=["forget requests"])
Number = Annotated[int, Path(ge=1, le=2**53, description="The request's number.", examples=[12])]
Key = Annotated[
    str | None,
    Header(min_length=1, max_length=200, description="The same key with the same request gives the same answer."),
]
READ_ERRORS = documented(401, 403, 404, 422)
WRITE_ERRORS = documented(401, 403, 404, 409, 413, 422, 503)
_EXAMPLE = 'id: 2\nevent: instant\ndata: {"number": 12, "state": "instant", "time": "2030-01-31T12:00:00+00:00"}\n\n'
_EVENT = {"type": "object", "properties": {name: {"type": "string"} for name in ("id", "event", "data")}}
_TEXT = {"text/event-stream": {"schema": _EVENT, "example": _EXAMPLE}}
_STREAM: dict[str, Any] = {"content": _TEXT, "description": "One event a state."}


@router.post("/preview", responses=WRITE_ERRORS)
def preview(what: Selection, who: Asker, runtime: CurrentRuntime) -> Preview:
    """What a forget request would rebuild, and which twins would stay; changes nothing."""
    return preview_request(runtime, make_submission(runtime, what, who), who)


@router.post("", status_code=202, responses=WRITE_ERRORS)
def submit(what: NewRequest, who: Asker, runtime: CurrentRuntime, idempotency_key: Key = None) -> RequestStatus:
    """Accept a forget request. When this answers, nothing that saw the data is served any more; groups that read it
    through private edges stay in service, within their budget."""
    key = runtime.keyed_hash("idempotency", who.name, idempotency_key) if idempotency_key else None
    body = runtime.keyed_hash("body", json.dumps(what.model_dump(mode="json"), sort_keys=True))
    if key and (earlier := runtime.repeated_request(key, body)):
        return RequestStatus.of(redact(runtime.confirm(earlier), who))
    new = replace(make_submission(runtime, what, who, what.reason), deadline=what.deadline, key=key, body=body)
    return RequestStatus.of(redact(runtime.submit(new), who))


@router.get("", responses=documented(401, 403, 422))
def listing(
    who: Reader,
    runtime: CurrentRuntime,
    state: Annotated[list[StateName], Query(description="Only requests in these states.")] = [],  # noqa: B006
    asker: Annotated[str | None, Query(max_length=64, description="Only requests of this token's name.")] = None,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only requests with a higher number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> RequestPage:
    """Requests by number, page by page; an owner sees its own."""
    asker = who.name if who.role == OWNER else asker
    found = runtime.queries.requests(states=state, asker=asker, after=after, limit=limit + 1)
    page = found[:limit]
    more = page[-1].number if len(found) > limit else None
    return RequestPage(requests=[RequestStatus.of(redact(stored, who)) for stored in page], next=more)


@router.get("/{number}", responses=READ_ERRORS)
def show(number: Number, who: Reader, runtime: CurrentRuntime) -> RequestStatus:
    """One request: its state, and every state that it has been in."""
    return RequestStatus.of(find_request(runtime, number, who))


@router.post("/{number}/cancel", responses=WRITE_ERRORS)
def cancel(number: Number, who: Asker, runtime: CurrentRuntime) -> RequestStatus:
    """Cancel a request before its erasing starts; what was withheld for it is served again."""
    find_request(runtime, number, who)
    return RequestStatus.of(runtime.cancel(number))


@router.post("/{number}/retry", responses=WRITE_ERRORS)
def retry(number: Number, who: Operator, runtime: CurrentRuntime) -> RequestStatus:
    """Retry a failed request, once the cause of the failure is repaired."""
    find_request(runtime, number, who)
    return RequestStatus.of(runtime.retry(number))


@router.get("/{number}/certificate", responses=documented(401, 403, 404, 409, 422))
def certificate(number: Number, who: Reader, runtime: CurrentRuntime) -> dict[str, Any]:
    """The signed certificate, as `shardgraph verify-certificate` reads it."""
    found = runtime.queries.certificate(certificate_number(runtime, number, who))
    name = f'attachment; filename="certificate-{found.number:06d}.json"'
    return JSONResponse(found.to_json(), headers={"Content-Disposition": name})  # type: ignore[return-value]


@router.post("/{number}/nonces", responses=documented(401, 403, 404, 409, 413, 422))
def nonces(number: Number, what: NonceRequest, who: Asker, runtime: CurrentRuntime) -> Nonces:
    """The nonces that open samples' entries in the request's certificate, for the one who asked."""
    found = certificate_number(runtime, number, who)
    return Nonces(certificate=found, nonces=nonces_for(runtime, who, found, what.samples))


@router.get("/{number}/events", response_class=StreamingResponse, responses=READ_ERRORS | {200: _STREAM})
async def events(
    number: Number,
    who: Reader,
    runtime: CurrentRuntime,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=20, description="The last event that was received.")] = None,
) -> StreamingResponse:
    """The states of a request as they are entered; the stream ends with the last one."""
    await to_thread.run_sync(find_request, runtime, number, who)
    return stream_states(request, runtime, number, last_event_id, who)


def make_submission(runtime: Runtime, what: Selection, who: Caller, reason: str = "") -> Submission:
    """The request for a selection, with twins where they were asked for; an owner's takes its own samples only."""
    new = limit_to_owned(runtime, who, what.to_request(reason))
    if not what.twins or new.earlier is not None:
        return new
    with runtime.previews.enter():
        extended = runtime.queries.with_twins(new.request)
    twins = only_owned(runtime, who, [name for name in extended.samples if name not in new.request.samples])
    return replace(new, request=replace(new.request, samples=(*new.request.samples, *twins)))


def preview_request(runtime: Runtime, new: Submission, who: Caller, *, twins: bool = True) -> Preview:
    """What a request would do, with the twins that the caller may know of; finding twins reads every sample."""
    asker = who.name if who.role == OWNER else None
    seconds = runtime.statistics.expected_seconds(asker)
    if new.earlier is not None:
        certificate = runtime.request(new.earlier).certificate
        return Preview.of_nothing([certificate] if certificate else [], seconds)
    with runtime.previews.enter():
        plan = runtime.queries.plan(new.request)
        found = runtime.queries.twins(row.id for row in plan.rows) if twins else []
    preview = Preview(**plan.to_json(), twins=only_owned(runtime, who, found), seconds=seconds)
    return preview.for_owner() if who.role == OWNER else preview


def stream_states(
    request: Request, runtime: Runtime, number: int, last: str | None, who: Caller | None = None
) -> StreamingResponse:
    """A request's states after the last event that was received, as server-sent events, as the caller may see them."""
    seen = int(last) if last and last.isdecimal() and last.isascii() else 0
    return StreamingResponse(_states(request, runtime, number, seen, who), media_type="text/event-stream")


async def _states(request: Request, runtime: Runtime, number: int, seen: int, who: Caller | None) -> AsyncIterator[str]:
    beat = time.monotonic()
    while not request.app.state.supervisor.ending.is_set():
        stored = redact(await to_thread.run_sync(runtime.request, number), who)
        for index, (state, entered) in enumerate(stored.history[seen:], start=seen + 1):
            yield f"id: {index}\nevent: {state}\ndata: {json.dumps(_state_facts(stored, state, entered))}\n\n"
        seen = max(seen, len(stored.history))
        if stored.state in FINAL or await request.is_disconnected():
            return
        if time.monotonic() - beat > HEARTBEAT:
            beat = time.monotonic()
            yield ": still here\n\n"
        await anyio.sleep(INTERVAL)


def _state_facts(stored: StoredRequest, state: str, entered: str) -> dict[str, Any]:
    """What was true when the state was entered."""
    facts: dict[str, Any] = {"number": stored.number, "state": state, "time": entered}
    if state == DONE:
        facts["certificate"] = stored.certificate
    if state == FAILED == stored.state:
        facts["failure"] = stored.failure
    return facts
