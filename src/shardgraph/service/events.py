"""A request's states as server-sent events: those it has been in, then each as it is entered, until the last."""

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Entry
from shardgraph.service.access import Reader, TheOffice
from shardgraph.service.asking import REFUSED, Number, entry_for
from shardgraph.service.office import Office
from shardgraph.service.owning import as_seen
from shardgraph.service.tokens import Caller

LOOK, BREATH = 0.2, 15.0  # seconds between looks, and between signs of life
router = APIRouter(prefix="/requests", tags=["forget requests"])
_EXAMPLE = 'id: 2\nevent: instant\ndata: {"number": 12, "state": "instant", "time": "2030-01-31T12:00:00+00:00"}\n\n'
_EVENT = {"type": "object", "properties": {name: {"type": "string"} for name in ("id", "event", "data")}}
_TEXT = {"text/event-stream": {"schema": _EVENT, "example": _EXAMPLE}}
_STREAM: dict[str, Any] = {"content": _TEXT, "description": "One event a state."}


@router.get("/{number}/events", response_class=StreamingResponse, responses=REFUSED | {200: _STREAM})
async def events(
    number: Number,
    who: Reader,
    office: TheOffice,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=20, description="The last event that was seen.")] = None,
) -> StreamingResponse:
    """The states of a request as they are entered; the stream ends with the last one."""
    await to_thread.run_sync(entry_for, office, number, who)
    return stream(request, office, number, last_event_id, who)


def stream(
    request: Request, office: Office, number: int, last: str | None, who: Caller | None = None
) -> StreamingResponse:
    """The states of an entry, after the last event that was seen, as the caller may see it."""
    seen = int(last) if last and last.isdecimal() and last.isascii() else 0
    return StreamingResponse(_states(request, office, number, seen, who), media_type="text/event-stream")


async def _states(request: Request, office: Office, number: int, seen: int, who: Caller | None) -> AsyncIterator[str]:
    breath = time.monotonic()
    while not request.app.state.ending.is_set():
        entry = as_seen(await to_thread.run_sync(queue.find, office.reader.catalogue, number), who)
        for index, (state, when) in enumerate(entry.history[seen:], start=seen + 1):
            yield f"id: {index}\nevent: {state}\ndata: {json.dumps(_facts(entry, state, when))}\n\n"
        seen = max(seen, len(entry.history))
        if entry.state in queue.FINAL or await request.is_disconnected():
            return
        if time.monotonic() - breath > BREATH:
            breath = time.monotonic()
            yield ": still here\n\n"
        await anyio.sleep(LOOK)


def _facts(entry: Entry, state: str, time: str) -> dict[str, Any]:
    """What was true when the state was entered."""
    facts: dict[str, Any] = {"number": entry.number, "state": state, "time": time}
    if state == queue.DONE:
        facts["certificate"] = entry.certificate
    if state == queue.FAILED == entry.state:
        facts["failure"] = entry.failure
    return facts
