"""Pages of coming and going: log in with a token, log out."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from shardgraph.service.access import TheOffice
from shardgraph.service.pages.rendering import PREFIX, home_of, render
from shardgraph.service.pages.visiting import COOKIE, Page, Sent, Stranger, renew, text, the_sessions
from shardgraph.service.tokens import caller_of, hash_of

front = APIRouter(route_class=Page, include_in_schema=False)
router = APIRouter(prefix=PREFIX, route_class=Page, include_in_schema=False)


@front.get("/")
def door() -> Response:
    """The address without a path leads to the pages."""
    return RedirectResponse(PREFIX, 303)


@router.get("/login")
def form(request: Request, who: Stranger, next: str = "") -> Response:
    """Where a token is shown."""
    if who.caller is not None:
        return RedirectResponse(home_of(who.caller.role), 303)
    return render(request, "login.html", next=next, wrong=False)


@router.post("/login")
def log_in(request: Request, sent: Sent, office: TheOffice) -> Response:
    """Begin a session, under a new id, if the token is valid."""
    catalogue = office.reader.catalogue
    found = caller_of(catalogue, text(sent, "token"))
    if found is None:
        return render(request, "login.html", 401, next=text(sent, "next"), wrong=True)
    renew(request, found.name, hash_of(catalogue, found.name))
    wanted = text(sent, "next")
    return RedirectResponse(wanted if is_ours(wanted) else home_of(found.role), 303)


def is_ours(place: str) -> bool:
    """Whether an address is one of the pages, and can be taken for no other site's."""
    path = place.partition("?")[0]
    return path.startswith(f"{PREFIX}/") and "//" not in path and "\\" not in place and place.isprintable()


@router.post("/logout")
def log_out(request: Request, sent: Sent) -> Response:
    """End the session."""
    the_sessions(request).close(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse(f"{PREFIX}/login", 303)
    answer.delete_cookie(COOKIE, path=PREFIX)
    return answer
