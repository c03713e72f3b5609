"""At the gate, before any route: bodies have a size, calls are counted and logged."""

import time

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardgraph.service.logs import log, place_of
from shardgraph.service.metrics import Metrics
from shardgraph.service.problems import refusal, unexpected

MOST, MOST_FILES = 4 << 20, 64 << 20  # bytes of a body: of JSON, which the event loop parses, and of files
FILES = ("/predictions/arrays", "/predictions/images")
MultiPartParser.spool_max_size = MOST_FILES  # what is uploaded stays in memory and never touches a disk


class BodyLimit:
    """Refuses a body that says it is too large, or turns out to be."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        most = MOST_FILES if scope["path"] in FILES else MOST
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said) > most:
            return await refusal(HTTPException(413, _too_large(most)), close=True)(scope, receive, send)
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > most:
                raise HTTPException(413, _too_large(most), {"Connection": "close"})
            return message

        await self.app(scope, counted, send)


class Journal:
    """Logs and counts every call by its route: no address, no query, no name."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, started = time.perf_counter(), 500, False

        async def noted(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception as error:
            log("unexpected", kind=type(error).__name__, where=place_of(error))
            if not started:
                await unexpected()(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.calls.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            log("call", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 1))


def _too_large(most: int) -> str:
    return f"a body must have at most {most:,} bytes here"
