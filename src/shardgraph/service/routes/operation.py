"""Routes for those who operate the service: health, readiness, metrics."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from shardgraph.service.auth.access import CurrentModels, CurrentRuntime, Inspector
from shardgraph.service.error_responses import documented
from shardgraph.service.schemas import Health, Readiness

router = APIRouter(tags=["operation"])


@router.get("/health")
async def health() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready; the reason is given."}})
async def ready(runtime: CurrentRuntime, request: Request) -> Readiness:
    """Whether a model is served that follows the disk, and requests are carried out."""
    reason = request.app.state.supervisor.why_not_ready()
    found = Readiness(ready=not reason, reason=reason, state=runtime.served_state_id)
    return found if found.ready else JSONResponse(found.model_dump(), 503)  # type: ignore[return-value]


@router.get("/metrics", response_class=PlainTextResponse, responses=documented(401, 403))
def metrics(who: Inspector, request: Request, models: CurrentModels) -> Response:
    """Prometheus metrics."""
    text = models.use(lambda _: request.app.state.metrics.text())
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
