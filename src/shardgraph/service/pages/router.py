"""All pages together: their routes, their static files, and what they keep while the service runs."""

from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from shardgraph.service.pages import forget, graph, login, overview, proof, requests, rights
from shardgraph.service.pages.originals import Originals
from shardgraph.service.pages.rendering import PREFIX
from shardgraph.service.pages.sessions import EncryptedAddresses, Sessions
from shardgraph.service.pages.visitors import AnyVisitor, PageRoute, Redirect

STATIC = Path(__file__).parent / "static"
ROUTERS = (
    login.root,
    login.router,
    overview.router,
    graph.router,
    forget.router,
    requests.router,
    proof.router,
    rights.router,
)
fallback = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)


class OwnFiles(StaticFiles):
    """Static files that a browser keeps, and asks for changes of."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


@fallback.get("/{rest:path}")
def not_found(rest: str, visitor: AnyVisitor) -> None:
    """Every other address; one that ends in slashes is redirected to the same without them."""
    if not rest or rest.endswith("/"):
        raise Redirect(f"{PREFIX}/{quote(rest.strip('/'))}".rstrip("/"))
    raise HTTPException(404, "there is no such page")


def redirect_to_form(request: Request) -> Response:
    """An address that only takes forms leads to the page above it."""
    return RedirectResponse(request.url.path.rpartition("/")[0], 303)


def add_pages(app: FastAPI, originals: Path | None = None) -> None:
    """Add the pages to the application."""
    app.state.sessions, app.state.addresses, app.state.originals = (
        Sessions(),
        EncryptedAddresses(),
        Originals(originals),
    )
    app.mount(f"{PREFIX}/static", OwnFiles(directory=STATIC), name="static")
    for router in (_form_redirects(), *ROUTERS, fallback):
        app.include_router(router)


def _form_redirects() -> APIRouter:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    readable = {route.path for route in routes if "GET" in (route.methods or ())}
    redirects = APIRouter(route_class=PageRoute, include_in_schema=False)
    for path in sorted({route.path for route in routes} - readable):
        redirects.add_api_route(path, redirect_to_form, methods=["GET"])
    return redirects
