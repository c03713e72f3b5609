"""Routes for those who check: certificates, the public key, the ledger, served states, the status."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query

from shardgraph.service.access import Looker, TheOffice, allow
from shardgraph.service.problems import documented
from shardgraph.service.schemas import Line, Lines, PublicKey, StateLine
from shardgraph.service.tokens import AUDITOR, CONSUMER, OPERATOR

router = APIRouter(tags=["proofs"])
After = Annotated[int, Query(ge=0, le=2**53, description="Only those with a higher number.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/public-key")
def public_key(office: TheOffice) -> PublicKey:
    """The key that certificates are checked with; anyone may have it."""
    return PublicKey(public_key=office.reader.secrets.public)


@router.get("/certificates/{number}", responses=documented(401, 403, 404, 422))
def certificate(
    number: Annotated[int, Path(ge=1, le=2**53, examples=[1])], who: Looker, office: TheOffice
) -> dict[str, Any]:
    """A certificate by its number; they are chained from 1 on."""
    if number > office.reader.last_certificate():
        raise HTTPException(404, f"there is no certificate {number}")
    return office.reader.certificate(number).to_json()


@router.get("/ledger", responses=documented(401, 403, 422))
def ledger(who: Looker, office: TheOffice, after: After = 0, limit: Limit = 100) -> Lines:
    """What happened, line by line; no line names a sample."""
    sql = "SELECT number, time, event, detail FROM ledger WHERE number > ? ORDER BY number LIMIT ?"
    rows = office.reader.catalogue.all(sql, after, limit + 1)
    lines = [Line.model_validate(_line(*row)) for row in rows[:limit]]
    return Lines(lines=lines, next=lines[-1].number if len(rows) > limit else None)


@router.get(
    "/states/{state}",
    responses=documented(401, 403, 404, 422),
    dependencies=[Depends(allow(OPERATOR, AUDITOR, CONSUMER))],
)
def state(state: Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=["9f2c" * 8])], office: TheOffice) -> StateLine:
    """What the ledger says of the state that a prediction carried."""
    sql = "SELECT number, time, detail FROM ledger WHERE event = 'serving' AND json_extract(detail, '$.state') = ?"
    row = office.reader.catalogue.one(sql, state)
    if row is None:
        raise HTTPException(404, "nothing was ever served under this state")
    told = json.loads(row[2])
    facts = {"state": state, "number": row[0], "time": row[1]} | {k: told[k] for k in ("withheld", "adapters")}
    return StateLine.model_validate(facts)


@router.get("/status", responses=documented(401, 403))
def status(who: Looker, office: TheOffice) -> dict[str, Any]:
    """What is here, what is served and what waits, in figures; the seed, with which requests can be aimed, is the
    operator's alone."""
    found = office.reader.status()
    return found if who.role == OPERATOR else {key: value for key, value in found.items() if key != "seed"}


def _line(number: int, time: str, event: str, detail: str) -> dict[str, Any]:
    return {"number": number, "time": time, "event": event, "detail": json.loads(detail)}
