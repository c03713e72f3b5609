"""Routes for those who check: certificates, the public key, the ledger, served states, the status.

What needs a lease answers with a `JSONResponse`: the lease lasts until it is sent, and must not wait for a thread that
would check and encode the answer.
"""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from fastapi.responses import JSONResponse

from shardgraph.service.auth.access import CurrentModels, CurrentRuntime, Inspector, allow
from shardgraph.service.auth.tokens import AUDITOR, CONSUMER, OPERATOR, Caller
from shardgraph.service.error_responses import documented
from shardgraph.service.schemas import Event, EventPage, PublicKey, ServedState

router = APIRouter(tags=["proofs"])
After = Annotated[int, Query(ge=0, le=2**53, description="Only events with a higher number.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/public-key")
def public_key(runtime: CurrentRuntime) -> PublicKey:
    """The key that certificates are checked with; everybody may read it."""
    return PublicKey(public_key=runtime.queries.public_key)


@router.get("/certificates/{number}", responses=documented(401, 403, 404, 422))
def certificate(
    number: Annotated[int, Path(ge=1, le=2**53, examples=[1])], who: Inspector, runtime: CurrentRuntime
) -> dict[str, Any]:
    """A certificate by its number; certificates are chained, from number 1 on."""
    if number > runtime.queries.last_certificate():
        raise HTTPException(404, f"there is no certificate {number}")
    return runtime.queries.certificate(number).to_json()


@router.get("/ledger", responses=documented(401, 403, 422))
def ledger(who: Inspector, models: CurrentModels, after: After = 0, limit: Limit = 100) -> EventPage:
    """The events of the ledger by number; no event names a sample. The accuracy of a `measured` event is shown until
    the next request: then the model that was measured may have seen what is withheld."""
    found = models.use(lambda leased: leased.events(after, limit + 1))
    lines = [Event.model_validate(asdict(event)) for event in found[:limit]]
    page = EventPage(lines=lines, next=lines[-1].number if len(found) > limit else None)
    return JSONResponse(page.model_dump(mode="json"))  # type: ignore[return-value]


@router.get("/states/{state}", responses=documented(401, 403, 404, 422))
def state(
    state: Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=["9f2c" * 8])],
    who: Annotated[Caller, Depends(allow(OPERATOR, AUDITOR, CONSUMER))],
    runtime: CurrentRuntime,
) -> ServedState:
    """What the ledger says about the state id of a prediction. Consumers are not told which requests were withheld:
    with that, they could compare predictions before and after one request."""
    event = runtime.queries.serving_event(state)
    if event is None:
        raise HTTPException(404, "nothing was ever served under this state")
    withheld = None if who.role == CONSUMER else event.detail["withheld"]
    detail = {"withheld": withheld, "adapters": event.detail["adapters"]}
    return ServedState.model_validate({"state": state, "number": event.number, "time": event.time} | detail)


@router.get("/status", responses=documented(401, 403))
def status(who: Inspector, models: CurrentModels) -> dict[str, Any]:
    """The workspace, the served model and the queue in figures. Only operators see the seed: with it, requests could
    be aimed at chosen shards."""
    found = models.use(lambda leased: leased.status())
    shown = found if who.role == OPERATOR else {key: value for key, value in found.items() if key != "seed"}
    return JSONResponse(shown)  # type: ignore[return-value]
