"""What every call passes before it reaches a route, from the outside in:

    CallLog           logs and counts every call, and answers errors that nobody expected
    SecurityHeaders   the headers that every answer carries
    FormTooLarge      answers a person who sent too much to a page with a page
    CallerCheck       refuses calls that no route would accept, before a byte of their body is read
    BodyLimit         refuses bodies that are too large
    ModelGate         sends no answer that used a model which was replaced

With tokens, a call with a body needs one. Without tokens, whoever is on this machine may do everything: so a call must
address this machine by name, and must not come from another site's page in somebody's browser.
"""

import asyncio
import ipaddress
import time
from functools import partial

import anyio
from fastapi import FastAPI, Request, Response
from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardgraph.service.auth.tokens import any_token, caller_of
from shardgraph.service.error_responses import refuse, unexpected
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.runtime.logs import write_error, write_log
from shardgraph.service.runtime.metrics import Metrics
from shardgraph.service.runtime.runtime import LEASES, Lease, Runtime

MAX_BODY, MAX_FILES = 4 << 20, 64 << 20  # bytes of a JSON body, which the event loop parses, and of uploaded files
FILE_ROUTES = ("/predictions/arrays", "/predictions/images")
MultiPartParser.spool_max_size = MAX_FILES  # uploads stay in memory and are never written to a disk
OPEN_ROUTES = ("/", "/health", "/ready", "/public-key", "/openapi.json")  # for everybody
WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
PART = 1 << 16  # bytes of an answer that are handed to the connection at once
REPLACED = "the model was replaced before this answer was ready; try again in a moment"
TOO_LARGE = "What was sent is larger than a form may be. Nothing was changed."
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def add_middleware(app: FastAPI, metrics: Metrics) -> None:
    """Let every call pass the middleware; what is added last is outermost."""
    app.add_middleware(ModelGate)
    app.add_middleware(BodyLimit)
    app.add_middleware(CallerCheck)
    app.add_middleware(FormTooLarge)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(CallLog, metrics=metrics)


class CallLog:
    """Logs and counts every call by its route: no address, no query, no name."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, started = time.perf_counter(), 500, False

        async def send_and_remember(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        try:
            await self.app(scope, receive, send_and_remember)
        except Exception as error:
            write_error("unexpected", error)
            if not started:
                await unexpected()(scope, receive, send_and_remember)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.calls.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            write_log("call", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 1))


class SecurityHeaders:
    """Tells browsers: run our own scripts only, show this in no frame, guess no type, keep nothing but static files."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)


class FormTooLarge:
    """Replaces the JSON of a 413 for the pages by a page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(f"{PREFIX}/"):
            return await self.app(scope, receive, send)
        refused = False

        async def send_unless_refused(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"")
                refused = message["status"] == 413 and kind == b"application/json"
            if not refused:
                await send(message)

        await self.app(scope, receive, send_unless_refused)
        if refused:
            page = render(Request(scope), "failure.html", 413, title="Too large", words=TOO_LARGE, code=413)
            page.headers["Connection"] = "close"
            await page(scope, receive, send)


class CallerCheck:
    """Refuses calls that no route would accept; the pages check their callers themselves."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path not in OPEN_ROUTES and not f"{path}/".startswith(f"{PREFIX}/"):
            try:
                _check_caller(scope)
            except HTTPException as error:
                return await refuse(error, close=True)(scope, receive, send)
        await self.app(scope, receive, send)


class BodyLimit:
    """Refuses a body that declares too many bytes, or has them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        most = MAX_FILES if scope["path"] in FILE_ROUTES else MAX_BODY
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > most:
            return await refuse(_too_large(most), close=True)(scope, receive, send)
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise _too_large(most)
            return message

        await self.app(scope, receive_counted, send)


class ModelGate:
    """Holds the leases of a call until its answer is sent, and refuses an answer whose lease was revoked.

    While an answer waits for a client that does not read, a revoked lease cuts it off: the connection is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        leases: list[Lease] = []
        scope[LEASES] = leases
        start: Message | None = None
        answered, loop = False, asyncio.get_running_loop()

        async def send_leased(message: Message) -> None:
            nonlocal start, answered
            if answered or not leases:
                return None if answered else await send(message)
            if message["type"] == "http.response.start":
                start = message  # nothing is sent before all of the answer is known
                return None
            answered = True
            with anyio.CancelScope() as sending:
                cut = partial(loop.call_soon_threadsafe, sending.cancel)
                if all(lease.begin_sending(cut) for lease in leases):
                    await _send_in_parts(send, start, message)
                else:
                    await _replaced(scope)(scope, receive, send)

        try:
            await self.app(scope, receive, send_leased)
        finally:
            for lease in leases:
                lease.end()


async def _send_in_parts(send: Send, start: Message | None, message: Message) -> None:
    """Send an answer part by part: a part is sent when the connection has room for it."""
    assert start is not None and not message.get("more_body"), "an answer that used a model is sent as a whole"
    await send(start)
    body = message.get("body", b"")
    while len(body) > PART:
        await send({"type": "http.response.body", "body": body[:PART], "more_body": True})
        body = body[PART:]
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _replaced(scope: Scope) -> Response:
    """The answer instead of one whose model was replaced before it could be sent."""
    if scope["path"].startswith(f"{PREFIX}/"):
        title = "Try again later"
        return render(Request(scope), "failure.html", 503, title=title, words=REPLACED, code=503)
    return refuse(HTTPException(503, REPLACED))


def is_local(host: str) -> bool:
    """Whether a host name means this machine and can mean no other."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_caller(scope: Scope) -> None:
    runtime: Runtime = scope["app"].state.runtime
    headers = Headers(scope=scope)
    if any_token(runtime.catalogue):
        kind, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if kind.lower() == "bearer" else ""
        if scope["method"] not in WITHOUT_BODY and caller_of(runtime.catalogue, bearer) is None:
            raise HTTPException(401, "a valid token is needed", {"WWW-Authenticate": "Bearer"})
        return
    host = URL(scope=scope).hostname or ""
    if not is_local(host):  # a name of another site that resolves to this machine
        raise HTTPException(403, "without tokens only localhost is answered: create one with `shardgraph token`")
    own = f"{scope['scheme']}://{headers.get('host', '')}"
    if headers.get("origin", own) != own or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise HTTPException(403, "this call was sent by another site's page")


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a body must have at most {most:,} bytes here", {"Connection": "close"})
