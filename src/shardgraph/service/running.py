"""Routes for those who keep it running: health, readiness, metrics."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from shardgraph.service.access import Looker, TheOffice
from shardgraph.service.problems import documented
from shardgraph.service.schemas import Health, Readiness

router = APIRouter(tags=["operation"])


@router.get("/health")
def health() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready; the reason is given."}})
def ready(office: TheOffice, request: Request) -> Readiness:
    """Whether a model is served and requests are worked on."""
    state = office.served.state
    reason = "" if state else "no model is served yet"
    if not request.app.state.worker.alive:
        reason = "the worker is not running"
    found = Readiness(ready=not reason, reason=reason, state=state.id if state else None)
    return found if found.ready else JSONResponse(found.model_dump(), 503)  # type: ignore[return-value]


@router.get("/metrics", response_class=PlainTextResponse, responses=documented(401, 403))
def metrics(who: Looker, request: Request) -> Response:
    """Prometheus metrics."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")
