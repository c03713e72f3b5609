"""Rights: what a consumer's model knows, how accurate it is; giving, taking, provisioning. A consumer sees its own."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from shardgraph.errors import InputError, WorkspaceBusy
from shardgraph.forget.intake.sources import terms_by_source
from shardgraph.forget.rights.rights import Right, right_of, rights_by_consumer
from shardgraph.forget.workspace import Workspace
from shardgraph.service.access import TheOffice
from shardgraph.service.office import Office
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visiting import Operator, Page, RightsReader, Sent, named, names, text
from shardgraph.service.predicting import best
from shardgraph.service.tokens import CONSUMER, OPERATOR, Caller
from shardgraph.storage.samples import TEST, Samples

HOME = f"{PREFIX}/rights"
PATIENCE, PAUSE = 10.0, 0.1  # seconds to wait for the workspace's lock, and between two tries
SUGGESTED = 50  # held-out samples to choose from
router = APIRouter(prefix=HOME, route_class=Page, include_in_schema=False)
Consumer = Annotated[str, Query(max_length=1024)]
T = TypeVar("T")


@router.get("")
def listing(request: Request, who: RightsReader, office: TheOffice) -> Response:
    """Everybody's right; a consumer is led to its own."""
    if who.role == CONSUMER:
        return RedirectResponse(_of(who.name), 303)
    catalogue = office.reader.catalogue
    return render(
        request, "rights.html", rights=rights_by_consumer(catalogue), sources=list(terms_by_source(catalogue))
    )


@router.get("/of")
def one(
    request: Request, who: RightsReader, office: TheOffice, consumer: Consumer, reach: Literal["", "yes"] = ""
) -> Response:
    """One consumer's right; the script asks again, for how far it reaches, which takes a look at every shard."""
    return _shown(request, office, who, consumer, count=bool(reach))


@router.post("/of")
def count(who: RightsReader, sent: Sent) -> Response:
    """Lead to the right with how far it reaches."""
    return RedirectResponse(f"{_of(named(sent, 'of'))}&reach=yes", 303)


@router.post("/grant")
def grant(who: Operator, sent: Sent, office: TheOffice) -> Response:
    """Let a consumer use more."""
    consumer, sources = named(sent, "of") or text(sent, "consumer"), names(sent, "source")
    shards = [name.strip() for name in text(sent, "shards").split(",") if name.strip()]
    _patiently(office.entitling, lambda rights: rights.grant(consumer, sources, shards))
    return RedirectResponse(_of(consumer), 303)


@router.post("/revoke")
def revoke(who: Operator, sent: Sent, office: TheOffice) -> Response:
    """Take some of what a consumer has, or all of it."""
    consumer, everything = named(sent, "of"), bool(text(sent, "everything"))
    sources, shards = names(sent, "source"), names(sent, "shard")
    if not everything and not sources and not shards:
        raise InputError("choose what to revoke; nothing was changed")
    left = _patiently(
        office.entitling, lambda rights: rights.revoke(consumer, *(() if everything else (sources, shards)))
    )
    return RedirectResponse(_of(consumer) if left.sources or left.shards else HOME, 303)


@router.post("/provision")
def provision(who: Operator, sent: Sent, office: TheOffice) -> Response:
    """Train what the right lacks; this answers when it is done."""
    consumer = named(sent, "of")
    _patiently(office.counter, lambda counter: counter.provision(consumer))
    return RedirectResponse(_of(consumer), 303)


@router.post("/measure")
def measure(request: Request, who: RightsReader, sent: Sent, office: TheOffice) -> Response:
    """How accurate the right's model is on the held-out samples, beside the whole one."""
    consumer = _seen(who, named(sent, "of"))
    with office.counter() as counter:
        accuracy = {"right": counter.evaluate(consumer), "whole": counter.evaluate()}
    return _shown(request, office, who, consumer, accuracy=accuracy)


@router.post("/ask")
def ask(request: Request, who: Operator, sent: Sent, office: TheOffice) -> Response:
    """What the right's model says of a held-out sample, beside the whole one."""
    consumer, sample = named(sent, "of"), named(sent, "sample")
    with office.counter() as counter:
        asked = _held_out(counter, sample)
        answers = {
            name: best(model, model.scores(asked), 3)[0]["top"]
            for name, model in (("right", counter.model_for(consumer)), ("whole", counter.model()))
        }
    facts = {"sample": sample, "label": asked.labels[0], "answers": answers}
    return _shown(request, office, who, consumer, asked=facts)


def _shown(
    request: Request, office: Office, who: Caller, consumer: str, *, count: bool = False, **more: Any
) -> Response:
    found = _right(office, _seen(who, consumer), who)
    held_out: list[str] = []
    with office.counter() as counter:
        served = counter.config.trained and bool(found.sources or found.shards)
        reach = counter.reach(found) if served and count else None
        terms = terms_by_source(counter.catalogue)
        if who.role == OPERATOR:
            sql = "SELECT id FROM samples WHERE unit LIKE 'test:%' ORDER BY id LIMIT ?"
            held_out = [name for (name,) in counter.catalogue.all(sql, SUGGESTED)]
    others = [name for name in terms if name not in found.sources] if who.role == OPERATOR else []
    facts: dict[str, Any] = {"right": found, "served": served, "reach": reach, "others": others, "held_out": held_out}
    return render(request, "right.html", **facts | {"accuracy": None, "asked": None} | more)


def _right(office: Office, consumer: str, who: Caller) -> Right:
    """The right; a consumer who has none yet sees an empty one."""
    if who.role == CONSUMER and consumer not in rights_by_consumer(office.reader.catalogue):
        return Right(consumer)
    return right_of(office.reader.catalogue, consumer)


def _seen(who: Caller, consumer: str) -> str:
    """The consumer, if the caller may look at its right; what it may not see is not there."""
    if who.role == CONSUMER and consumer != who.name:
        raise HTTPException(404, "there is no such right")
    return consumer


def _held_out(counter: Workspace, name: str) -> Samples:
    row = next(iter(counter.catalogue.rows("id", [name])), None)
    if row is None or row.split != TEST or not row.unit.startswith("test:"):
        raise InputError("only a held-out sample can be asked about here; none of that name is")
    samples = counter.store.read(row.unit)
    return samples.take(np.array([samples.ids.index(name)]))


def _patiently(opened: Callable[[], AbstractContextManager[Workspace]], act: Callable[[Workspace], T]) -> T:
    """Do something that writes; wait a while for whoever writes just now."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with opened() as workspace:
                return act(workspace)
        except WorkspaceBusy:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE)


def _of(consumer: str) -> str:
    return f"{HOME}/of?{urlencode({'consumer': consumer})}"
