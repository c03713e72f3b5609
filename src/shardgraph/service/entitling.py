"""Routes of rights: which part of the data a consumer's predictions may use. A consumer is named as its token is."""

from typing import Annotated

from fastapi import APIRouter, Path

from shardgraph.service.access import Looker, Operator, TheOffice
from shardgraph.service.problems import documented
from shardgraph.service.schemas import Entitled, Part, Provisioned

router = APIRouter(prefix="/rights", tags=["rights"])
Consumer = Annotated[
    str, Path(pattern="^[A-Za-z0-9_-]{1,64}$", description="The name of its token.", examples=["shop"])
]
FAILS = documented(401, 403, 404, 409, 413, 422, 503)


@router.get("", responses=documented(401, 403))
def rights(who: Looker, office: TheOffice) -> list[Entitled]:
    """Every consumer's right."""
    return [Entitled.model_validate(right.to_json()) for right in office.reader.rights().values()]


@router.post("/{consumer}/grant", responses=FAILS)
def grant(consumer: Consumer, what: Part, who: Operator, office: TheOffice) -> Entitled:
    """Let a consumer use these sources and shards, beside what it may use already."""
    with office.entitling() as workspace:
        return Entitled.model_validate(workspace.grant(consumer, what.sources, what.shards).to_json())


@router.post("/{consumer}/revoke", responses=FAILS)
def revoke(consumer: Consumer, what: Part, who: Operator, office: TheOffice) -> Entitled:
    """Take sources and shards from a consumer, or all that it has; its next prediction is without them."""
    with office.entitling() as workspace:
        return Entitled.model_validate(workspace.revoke(consumer, what.sources, what.shards).to_json())


@router.post("/{consumer}/provision", responses=FAILS)
def provision(consumer: Consumer, who: Operator, office: TheOffice) -> Provisioned:
    """Train the groups that a right lacks on what it allows; answers when they are there."""
    with office.counter() as workspace:  # which nobody's prediction waits for
        return Provisioned(trained=workspace.provision(consumer))
