"""Who visits a page, with which role; forms and their tokens; errors as pages."""

import hmac
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException as AnyHTTPException

from shardgraph.errors import InputError, ShardgraphError
from shardgraph.service.auth.access import CurrentRuntime
from shardgraph.service.auth.tokens import AUDITOR, CONSUMER, LOCAL, OPERATOR, OWNER, Caller, any_token, caller_named
from shardgraph.service.error_responses import message_for, status_of
from shardgraph.service.middleware import is_local
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.sessions import HOURS, Session, Sessions, new_id
from shardgraph.service.runtime.logs import write_error
from shardgraph.service.runtime.runtime import Runtime

COOKIE = "shardgraph_session"
MAX_RETURN = 1000  # characters of an address that the login leads back to
TITLES = {
    401: "Log in first",
    403: "Not allowed",
    404: "Not found",
    409: "Not possible in this state",
    413: "Too large",
    503: "Try again later",
}


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page, None if not logged in, and the token that its forms carry."""

    caller: Caller | None
    csrf: str


class Redirect(Exception):
    """Answer with a redirect to another page."""


class PageRoute(APIRoute):
    """A route that answers people: every error is a page, and a visitor's new id is set as a cookie."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except Redirect as target:
                response = RedirectResponse(str(target), 303)
            except Exception as error:
                response = _error_page(request, error)
            if key := getattr(request.state, "new_id", None):
                _set_cookie(request, response, key)
            return response

        return answer


def get_sessions(request: Request) -> Sessions:
    """The sessions of this service."""
    sessions: Sessions = request.app.state.sessions
    return sessions


def start_session(request: Request, name: str, hash: str) -> None:
    """Log somebody in: end the session that there was, begin a new one under a new id."""
    sessions = get_sessions(request)
    sessions.close(request.cookies.get(COOKIE, ""))
    request.state.new_id = sessions.open(name, hash)


async def get_visitor(request: Request, runtime: CurrentRuntime) -> Visitor:
    """Whoever visits; its caller is None before the login. A visitor without an id gets one, for forms need it."""
    sessions, key = get_sessions(request), request.cookies.get(COOKIE, "")
    if not key:
        key = request.state.new_id = new_id()
    visitor = Visitor(_caller(request, runtime, sessions.find(key)), sessions.csrf(key))
    request.state.visitor = visitor
    return visitor


AnyVisitor = Annotated[Visitor, Depends(get_visitor)]


async def get_page_caller(request: Request, visitor: AnyVisitor) -> Caller:
    """The caller who is logged in; others are redirected to the login."""
    if visitor.caller is None:
        raise Redirect(f"{PREFIX}/login?next={quote(_return_address(request))}")
    return visitor.caller


def admit(*roles: str) -> Callable[[Request, Caller], Awaitable[Caller]]:
    """A dependency: the caller, if its role is one of these."""

    async def check(request: Request, who: Annotated[Caller, Depends(get_page_caller)]) -> Caller:
        if who.role not in roles:
            raise HTTPException(403, f"this page is for the roles {' and '.join(roles)}; yours is {who.role}")
        request.state.caller = who
        return who

    return check


Asker = Annotated[Caller, Depends(admit(OPERATOR, OWNER))]
Operator = Annotated[Caller, Depends(admit(OPERATOR))]
Inspector = Annotated[Caller, Depends(admit(OPERATOR, AUDITOR))]
Reader = Annotated[Caller, Depends(admit(OPERATOR, AUDITOR, OWNER))]
RightsReader = Annotated[Caller, Depends(admit(OPERATOR, AUDITOR, CONSUMER))]


async def get_form(request: Request, visitor: AnyVisitor) -> FormData:
    """A form that was sent from one of our pages: from this site, and with this session's token."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this form was sent by another site")
    form = await request.form(max_files=1, max_fields=1000)
    if not hmac.compare_digest(str(form.get("csrf", "")).encode(), visitor.csrf.encode()):
        raise HTTPException(403, "this form is out of date: open its page again")
    return form


Form = Annotated[FormData, Depends(get_form)]


def read_text(form: FormData, field: str, default: str = "") -> str:
    """A field as text, without the spaces around it."""
    return read_exact(form, field, default).strip()


def read_exact(form: FormData, field: str, default: str = "") -> str:
    """A field as it was entered: a name may end in a space."""
    found = form.get(field, default)
    return found if isinstance(found, str) else default


def read_name(form: FormData, field: str) -> str:
    """The name in a hidden field of ours; "" without one."""
    return next(iter(read_names(form, field)), "")


def read_names(form: FormData, field: str) -> list[str]:
    """The names in hidden fields of ours. They are JSON there, for browsers change line breaks in plain text."""
    try:
        found = [json.loads(value) for value in form.getlist(field) if isinstance(value, str) and value]
    except (ValueError, RecursionError):
        found = [None]
    if not all(isinstance(name, str) for name in found):
        raise InputError(f"the field {field!r} must hold a name as JSON text: open the form's page again")
    return found


def _caller(request: Request, runtime: Runtime, session: Session | None) -> Caller | None:
    if session is not None:
        return caller_named(runtime.catalogue, session.name, session.hash)
    if any_token(runtime.catalogue):
        return None
    if not is_local(request.url.hostname or ""):  # the pages would belong to a name of another site
        raise HTTPException(403, "without tokens the pages answer on localhost only: create one by `shardgraph token`")
    return LOCAL


def _return_address(request: Request) -> str:
    """The page that was asked for, to lead back to after the login."""
    if request.method != "GET":
        return PREFIX
    whole = f"{request.url.path}?{request.url.query}".removesuffix("?")
    return whole if len(whole) <= MAX_RETURN else request.url.path


def _set_cookie(request: Request, response: Response, key: str) -> None:
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(COOKIE, key, HOURS * 3600, path=PREFIX, secure=secure, httponly=True, samesite="strict")


def _error_page(request: Request, error: Exception) -> Response:
    status, words = _status_and_text(error, getattr(request.state, "caller", None), request.app.state.runtime.root)
    if status == 500:
        write_error("unexpected", error)
    facts: dict[str, Any] = {"title": TITLES.get(status, "This is not possible"), "words": words, "code": status}
    return render(request, "failure.html", status, **facts)


def _status_and_text(error: Exception, who: Caller | None, root: Path) -> tuple[int, str]:
    if isinstance(error, UnicodeError):
        return 422, "the input holds invalid characters"
    if isinstance(error, AnyHTTPException):
        return (422 if error.status_code == 400 else error.status_code), str(error.detail)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return 422, f"{first['loc'][-1]}: {first['msg']}"
    if isinstance(error, ShardgraphError):
        return status_of(error), message_for(error, who, root)
    return 500, "An unexpected error occurred; the service's log names its kind."
