"""Routes of rights: which part of the data a consumer may use."""

from typing import Annotated

from fastapi import APIRouter, Path

from shardgraph.service.auth.access import CurrentRuntime, Inspector, Operator
from shardgraph.service.error_responses import documented
from shardgraph.service.schemas import ConsumerRight, DataPart, Provisioned

router = APIRouter(prefix="/rights", tags=["rights"])
Consumer = Annotated[
    str, Path(pattern="^[A-Za-z0-9_-]{1,64}$", description="The name of its token.", examples=["shop"])
]
ERRORS = documented(401, 403, 404, 409, 413, 422, 503)


@router.get("", responses=documented(401, 403))
def rights(who: Inspector, runtime: CurrentRuntime) -> list[ConsumerRight]:
    """Every consumer's right."""
    return [ConsumerRight.model_validate(right.to_json()) for right in runtime.queries.rights().values()]


@router.post("/{consumer}/grant", responses=ERRORS)
def grant(consumer: Consumer, what: DataPart, who: Operator, runtime: CurrentRuntime) -> ConsumerRight:
    """Let a consumer use these sources and shards, in addition to what it may use already."""
    return ConsumerRight.model_validate(runtime.grant(consumer, what.sources, what.shards).to_json())


@router.post("/{consumer}/revoke", responses=ERRORS)
def revoke(consumer: Consumer, what: DataPart, who: Operator, runtime: CurrentRuntime) -> ConsumerRight:
    """Take sources and shards from a consumer, or all that it has; its next prediction is made without them."""
    return ConsumerRight.model_validate(runtime.revoke(consumer, what.sources, what.shards).to_json())


@router.post("/{consumer}/provision", responses=ERRORS)
def provision(consumer: Consumer, who: Operator, runtime: CurrentRuntime) -> Provisioned:
    """Train the groups that a right lacks on what it allows; answers when they are trained."""
    return Provisioned(trained=runtime.provision(consumer))
