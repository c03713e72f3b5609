"""The login page: log in with a token, log out."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from shardgraph.service.auth.access import CurrentRuntime
from shardgraph.service.auth.tokens import caller_of, hash_of
from shardgraph.service.pages.rendering import PREFIX, home_of, render
from shardgraph.service.pages.visitors import (
    COOKIE,
    AnyVisitor,
    Form,
    PageRoute,
    get_sessions,
    read_text,
    start_session,
)

root = APIRouter(route_class=PageRoute, include_in_schema=False)
router = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)


@root.get("/")
def redirect_to_pages() -> Response:
    """The address without a path leads to the pages."""
    return RedirectResponse(PREFIX, 303)


@router.get("/login")
def show(request: Request, visitor: AnyVisitor, next: str = "") -> Response:
    """The form for the token."""
    if visitor.caller is not None:
        return RedirectResponse(home_of(visitor.caller.role), 303)
    return render(request, "login.html", next=next, wrong=False)


@router.post("/login")
def log_in(request: Request, form: Form, runtime: CurrentRuntime) -> Response:
    """Begin a session, under a new id, if the token is valid."""
    found = caller_of(runtime.catalogue, read_text(form, "token"))
    if found is None:
        return render(request, "login.html", 401, next=read_text(form, "next"), wrong=True)
    start_session(request, found.name, hash_of(runtime.catalogue, found.name))
    wanted = read_text(form, "next")
    return RedirectResponse(wanted if is_own_page(wanted) else home_of(found.role), 303)


@router.post("/logout")
def log_out(request: Request, form: Form) -> Response:
    """End the session."""
    get_sessions(request).close(request.cookies.get(COOKIE, ""))
    response = RedirectResponse(f"{PREFIX}/login", 303)
    response.delete_cookie(COOKIE, path=PREFIX)
    return response


def is_own_page(address: str) -> bool:
    """Whether an address is one of our pages, and cannot be read as an address of another site."""
    path = address.partition("?")[0]
    return path.startswith(f"{PREFIX}/") and "//" not in path and "\\" not in address and address.isprintable()
