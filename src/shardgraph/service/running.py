"""Routes for those who keep it running: health, readiness, metrics."""

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from shardgraph.service.access import Looker, TheOffice
from shardgraph.service.problems import documented
from shardgraph.service.schemas import Health, Readiness

router = APIRouter(tags=["operation"])


@router.get("/health")
async def health() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready; the reason is given."}})
async def ready(office: TheOffice, request: Request) -> Readiness:
    """Whether a model is served that is in step with the disk, and requests are worked on."""
    state, reason = office.served.state, _missing(request.app)
    found = Readiness(ready=not reason, reason=reason, state=state.id if state else None)
    return found if found.ready else JSONResponse(found.model_dump(), 503)  # type: ignore[return-value]


def _missing(app: FastAPI) -> str:
    """Why it is not ready; "" if it is. Everybody may read it: it names no file."""
    if not app.state.worker.alive:
        return "the worker is not running"
    if trouble := app.state.watcher.trouble:
        return f"what is on disk cannot be served ({trouble}): the log says where, `shardgraph verify` says what"
    if not app.state.watcher.is_alive():
        return "the watcher is not running"
    return "" if app.state.office.served.state else "no model is served yet"


@router.get("/metrics", response_class=PlainTextResponse, responses=documented(401, 403))
def metrics(who: Looker, request: Request) -> Response:
    """Prometheus metrics."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")
