"""Who visits a page, and how a page fails: log-in, roles, the token of every form, errors as pages."""

import hmac
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException as AnyHTTPException

from shardgraph.errors import InputError, ShardgraphError
from shardgraph.service.access import TheOffice
from shardgraph.service.door import is_local
from shardgraph.service.logs import log, place_of
from shardgraph.service.office import Office
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.sessions import HOURS, Session, Sessions, new_id
from shardgraph.service.problems import status_of, told
from shardgraph.service.tokens import AUDITOR, CONSUMER, LOCAL, OPERATOR, OWNER, Caller, any_token, caller_named

COOKIE = "shardgraph_session"
LONGEST_WAY = 1000  # letters of an address that the log-in leads back to
TITLES = {
    401: "Log in first",
    403: "Not for you",
    404: "Not here",
    409: "Not in this state",
    413: "Too large",
    503: "Not now",
}


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page, None for a stranger, and the token that its forms carry."""

    caller: Caller | None
    csrf: str


class Elsewhere(Exception):
    """Go to another page instead."""


class Page(APIRoute):
    """A route that answers people: whatever goes wrong is a page that says so, and a new id gets its cookie."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its failures."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except Elsewhere as place:
                response = RedirectResponse(str(place), 303)
            except Exception as error:
                response = _failure(request, error)
            if key := getattr(request.state, "new_id", None):
                _give(request, response, key)
            return response

        return answer


def the_sessions(request: Request) -> Sessions:
    """The sessions of this service."""
    return request.app.state.sessions


def renew(request: Request, name: str, hash: str) -> None:
    """Log somebody in: the session that was is over, a new one begins under a new id."""
    sessions = the_sessions(request)
    sessions.close(request.cookies.get(COOKIE, ""))
    request.state.new_id = sessions.open(name, hash)


async def stranger(request: Request, office: TheOffice) -> Visitor:
    """Whoever it is; its caller is None until it has logged in. One without an id gets one, for forms need it."""
    sessions, key = the_sessions(request), request.cookies.get(COOKIE, "")
    if not key:
        key = request.state.new_id = new_id()
    caller = _caller(request, office, sessions.find(key))
    request.state.visitor = Visitor(caller, sessions.csrf(key))
    return request.state.visitor


Stranger = Annotated[Visitor, Depends(stranger)]


async def visitor(request: Request, who: Stranger) -> Visitor:
    """Somebody who is logged in; others are sent to the log-in."""
    if who.caller is None:
        raise Elsewhere(f"{PREFIX}/login?next={quote(_back(request))}")
    return who


def admit(*roles: str) -> Callable[[Request, Visitor], Awaitable[Caller]]:
    """A dependency: the caller, if its role is one of these."""

    async def check(request: Request, who: Annotated[Visitor, Depends(visitor)]) -> Caller:
        assert who.caller is not None
        if who.caller.role not in roles:
            raise HTTPException(403, f"this page is for the roles {' and '.join(roles)}; yours is {who.caller.role}")
        request.state.caller = who.caller
        return who.caller

    return check


Asker = Annotated[Caller, Depends(admit(OPERATOR, OWNER))]
Operator = Annotated[Caller, Depends(admit(OPERATOR))]
Looker = Annotated[Caller, Depends(admit(OPERATOR, AUDITOR))]
Reader = Annotated[Caller, Depends(admit(OPERATOR, AUDITOR, OWNER))]
RightsReader = Annotated[Caller, Depends(admit(OPERATOR, AUDITOR, CONSUMER))]


async def sent(request: Request, who: Stranger) -> FormData:
    """The form that was sent from a page of ours: from this site, and with this session's token."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this form was sent by another site")
    form = await request.form(max_files=1, max_fields=1000)
    if not hmac.compare_digest(str(form.get("csrf", "")).encode(), who.csrf.encode()):
        raise HTTPException(403, "this form is out of date: open its page again")
    return form


Sent = Annotated[FormData, Depends(sent)]


def text(form: FormData, name: str, default: str = "") -> str:
    """A field of a form, as text without the spaces around it."""
    return exact(form, name, default).strip()


def exact(form: FormData, name: str, default: str = "") -> str:
    """A field that names something, as it is: a name may end in a space."""
    found = form.get(name, default)
    return found if isinstance(found, str) else default


def named(form: FormData, field: str) -> str:
    """The name that a field of our own carries; "" without one."""
    return next(iter(names(form, field)), "")


def names(form: FormData, field: str) -> list[str]:
    """The names that fields of our own carry. They are JSON there, for browsers change line breaks in plain text."""
    try:
        found = [json.loads(value) for value in form.getlist(field) if isinstance(value, str) and value]
    except (ValueError, RecursionError):
        found = [None]
    if not all(isinstance(name, str) for name in found):
        raise InputError(f"the field {field!r} must carry a name as JSON text: open the form's page again")
    return found


def _caller(request: Request, office: Office, session: Session | None) -> Caller | None:
    catalogue = office.reader.catalogue
    if session is not None:
        return caller_named(catalogue, session.name, session.hash)
    if any_token(catalogue):
        return None
    if not is_local(request.url.hostname or ""):  # a name that somebody let point here would make its pages ours
        raise HTTPException(403, "without tokens the pages answer on localhost alone: make one with `shardgraph token`")
    return LOCAL


def _back(request: Request) -> str:
    """Where somebody wanted to go, to be led there after the log-in."""
    if request.method != "GET":
        return PREFIX
    whole = f"{request.url.path}?{request.url.query}".removesuffix("?")
    return whole if len(whole) <= LONGEST_WAY else request.url.path


def _give(request: Request, response: Response, key: str) -> None:
    safe = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(COOKIE, key, HOURS * 3600, path=PREFIX, secure=safe, httponly=True, samesite="strict")


def _failure(request: Request, error: Exception) -> Response:
    status, words = _told(error, getattr(request.state, "caller", None))
    if status == 500:
        log("unexpected", kind=type(error).__name__, where=place_of(error))
    facts: dict[str, Any] = {"title": TITLES.get(status, "This cannot be done"), "words": words, "code": status}
    return render(request, "failure.html", status, **facts)


def _told(error: Exception, who: Caller | None) -> tuple[int, str]:
    if isinstance(error, UnicodeError):
        return 422, "what was sent holds characters that are none"
    if isinstance(error, AnyHTTPException):
        return (422 if error.status_code == 400 else error.status_code), str(error.detail)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return 422, f"{first['loc'][-1]}: {first['msg']}"
    if isinstance(error, ShardgraphError):
        return status_of(error), told(error, who)
    return 500, "Something unexpected happened; the service's log names its kind."
