"""At the door, before a byte of a body is read: who may not come in at all.

With tokens, a call with a body needs one. Without, whoever is on this machine may do everything: then a call must be
meant for this machine by name, and no other site's page may have sent it from somebody's browser.
"""

import ipaddress

from starlette.datastructures import URL, Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from shardgraph.service.problems import refusal
from shardgraph.service.tokens import any_token, caller_of

OPEN = ("/", "/health", "/ready", "/public-key", "/openapi.json")  # to everybody
PAGES = "/pages/"  # have a door of their own
BODILESS = ("GET", "HEAD", "OPTIONS")


class Door:
    """Turns calls away that no route would let in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN and not f"{scope['path']}/".startswith(PAGES):
            try:
                _check(scope)
            except HTTPException as error:
                return await refusal(error, close=True)(scope, receive, send)
        await self.app(scope, receive, send)


def is_local(host: str) -> bool:
    """Whether a name means this machine and can mean no other."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check(scope: Scope) -> None:
    headers, catalogue = Headers(scope=scope), scope["app"].state.office.reader.catalogue
    if any_token(catalogue):
        kind, _, token = headers.get("authorization", "").partition(" ")
        if scope["method"] not in BODILESS and (kind.lower() != "bearer" or not caller_of(catalogue, token.strip())):
            raise HTTPException(401, "a token that is valid here is needed", {"WWW-Authenticate": "Bearer"})
        return
    host = URL(scope=scope).hostname or ""
    if not is_local(host):  # a name that somebody let point here
        raise HTTPException(403, "without tokens only localhost is answered: make one with `shardgraph token`")
    own = f"{scope['scheme']}://{headers.get('host', '')}"
    if headers.get("origin", own) != own or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise HTTPException(403, "this call was sent by another site's page")
