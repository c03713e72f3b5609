"""The pages put together: their routes, their files, what they remember while the service lives."""

from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from shardgraph.service.pages import drawing, entering, following, forgetting, granting, overview, proving
from shardgraph.service.pages.originals import Originals
from shardgraph.service.pages.rendering import PREFIX
from shardgraph.service.pages.sealing import Seal
from shardgraph.service.pages.sessions import Sessions
from shardgraph.service.pages.visiting import Elsewhere, Page, Stranger

STATIC = Path(__file__).parent / "static"
ROUTERS = (
    entering.front,
    entering.router,
    overview.router,
    drawing.router,
    forgetting.router,
    following.router,
    proving.router,
    granting.router,
)
last = APIRouter(prefix=PREFIX, route_class=Page, include_in_schema=False)


class Files(StaticFiles):
    """Our own files; a browser asks whether they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, to be kept and asked for again."""
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


@last.get("/{rest:path}")
def nowhere(rest: str, who: Stranger) -> None:
    """Every other address; one that is ours but for slashes at its end leads there."""
    if not rest or rest.endswith("/"):
        raise Elsewhere(f"{PREFIX}/{quote(rest.strip('/'))}".rstrip("/"))
    raise HTTPException(404, "there is no such page")


def form_page(request: Request) -> Response:
    """An address that takes forms alone leads to the page above it."""
    return RedirectResponse(request.url.path.rpartition("/")[0], 303)


def _form_pages() -> APIRouter:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    shown = {route.path for route in routes if "GET" in (route.methods or ())}
    found = APIRouter(route_class=Page, include_in_schema=False)
    for path in sorted({route.path for route in routes} - shown):
        found.add_api_route(path, form_page, methods=["GET"])
    return found


def open_pages(app: FastAPI, originals: Path | None = None) -> None:
    """Serve the pages, too."""
    app.state.sessions, app.state.seal, app.state.originals = Sessions(), Seal(), Originals(originals)
    app.mount(f"{PREFIX}/static", Files(directory=STATIC), name="static")
    for router in (_form_pages(), *ROUTERS, last):
        app.include_router(router)
