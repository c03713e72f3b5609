"""The pages put together: their routes, their files, what they remember while the service lives."""

from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from shardgraph.service.pages import drawing, entering, following, forgetting, granting, overview, proving
from shardgraph.service.pages.originals import Originals
from shardgraph.service.pages.rendering import PREFIX
from shardgraph.service.pages.sealing import Seal
from shardgraph.service.pages.sessions import Sessions
from shardgraph.service.pages.visiting import Elsewhere, Page, Stranger

STATIC = Path(__file__).parent / "static"
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


def open_pages(app: FastAPI, originals: Path | None = None) -> None:
    """Serve the pages, too."""
    app.state.sessions, app.state.seal, app.state.originals = Sessions(), Seal(), Originals(originals)
    app.mount(f"{PREFIX}/static", Files(directory=STATIC), name="static")
    for router in (entering.front, entering.router, overview.router, drawing.router, forgetting.router):
        app.include_router(router)
    for router in (following.router, proving.router, granting.router, last):
        app.include_router(router)
