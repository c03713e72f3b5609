"""The rights pages: what a consumer may use, how accurate its model is; grant, revoke, provision, measure, try.

A consumer sees its own right.
"""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from shardgraph.errors import InputError
from shardgraph.forget import Right
from shardgraph.service.auth.access import CurrentModels, CurrentRuntime
from shardgraph.service.auth.tokens import CONSUMER, OPERATOR, Caller
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visitors import Form, Operator, PageRoute, RightsReader, read_name, read_names, read_text
from shardgraph.service.routes.predictions import best_classes
from shardgraph.service.runtime.models import LeasedModels
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.storage.files import retry_while_busy

LIST = f"{PREFIX}/rights"
TIMEOUT, PAUSE = 10.0, 0.1  # seconds to wait for the workspace's write lock, and between two attempts
SUGGESTED = 50  # held-out samples to choose from
router = APIRouter(prefix=LIST, route_class=PageRoute, include_in_schema=False)
Consumer = Annotated[str, Query(max_length=1024)]


@router.get("")
def listing(request: Request, who: RightsReader, runtime: CurrentRuntime) -> Response:
    """Every consumer's right; a consumer is redirected to its own."""
    if who.role == CONSUMER:
        return RedirectResponse(_address(who.name), 303)
    queries = runtime.queries
    return render(request, "rights.html", rights=queries.rights(), sources=queries.source_names())


@router.get("/of")
def show(
    request: Request, who: RightsReader, runtime: CurrentRuntime, consumer: Consumer, reach: Literal["", "yes"] = ""
) -> Response:
    """One consumer's right; the script asks again for its reach, which needs a look at every shard."""
    return _show(request, runtime, who, consumer, count=bool(reach))


@router.post("/of")
def count(who: RightsReader, form: Form) -> Response:
    """Redirect to the right with its reach."""
    return RedirectResponse(f"{_address(read_name(form, 'of'))}&reach=yes", 303)


@router.post("/grant")
def grant(who: Operator, form: Form, runtime: CurrentRuntime) -> Response:
    """Let a consumer use more."""
    consumer, sources = read_name(form, "of") or read_text(form, "consumer"), read_names(form, "source")
    shards = [name.strip() for name in read_text(form, "shards").split(",") if name.strip()]
    retry_while_busy(lambda: runtime.grant(consumer, sources, shards), TIMEOUT, pause=PAUSE)
    return RedirectResponse(_address(consumer), 303)


@router.post("/revoke")
def revoke(who: Operator, form: Form, runtime: CurrentRuntime) -> Response:
    """Take some of what a consumer may use, or all of it."""
    consumer, everything = read_name(form, "of"), bool(read_text(form, "everything"))
    sources, shards = read_names(form, "source"), read_names(form, "shard")
    if not everything and not sources and not shards:
        raise InputError("select what to revoke; nothing was changed")
    part = () if everything else (sources, shards)
    left = retry_while_busy(lambda: runtime.revoke(consumer, *part), TIMEOUT, pause=PAUSE)
    return RedirectResponse(_address(consumer) if left.sources or left.shards else LIST, 303)


@router.post("/provision")
def provision(who: Operator, form: Form, runtime: CurrentRuntime) -> Response:
    """Train what the right lacks; this answers when it is done."""
    consumer = read_name(form, "of")
    retry_while_busy(lambda: runtime.provision(consumer), TIMEOUT, pause=PAUSE)
    return RedirectResponse(_address(consumer), 303)


@router.post("/measure")
def measure(
    request: Request, who: RightsReader, form: Form, runtime: CurrentRuntime, models: CurrentModels
) -> Response:
    """The accuracy of the right's model on the held-out samples, beside that of the whole model.

    A consumer is told that of its own model alone, on the held-out samples of the sources of its right.
    """
    consumer = _check_visible(who, read_name(form, "of"))
    sources = _right(runtime, consumer, who).sources if who.role == CONSUMER else None

    def measured(leased: LeasedModels) -> dict[str, Any]:
        if sources is not None:
            return {"right": leased.accuracy(leased.of_right(consumer), sources), "whole": None}
        both = {"right": leased.of_right(consumer), "whole": leased.whole}
        return {which: leased.accuracy(model) for which, model in both.items()}

    with runtime.evaluations.enter():
        accuracy = models.use(measured)
    return _show(request, runtime, who, consumer, accuracy=accuracy)


@router.post("/ask")
def predict(request: Request, who: Operator, form: Form, runtime: CurrentRuntime, models: CurrentModels) -> Response:
    """What the right's model predicts for a held-out sample, beside the whole model."""
    consumer, name = read_name(form, "of"), read_name(form, "sample")

    def tried(leased: LeasedModels) -> dict[str, Any]:
        sample = runtime.queries.held_out_sample(name)
        both = {"right": leased.of_right(consumer), "whole": leased.whole}
        found = {which: best_classes(model, model.scores(sample), 3)[0]["top"] for which, model in both.items()}
        return {"sample": name, "label": sample.labels[0], "predictions": found}

    with runtime.evaluations.enter():
        facts = models.use(tried)
    return _show(request, runtime, who, consumer, tried=facts)


def _show(
    request: Request, runtime: Runtime, who: Caller, consumer: str, *, count: bool = False, **more: Any
) -> Response:
    right = _right(runtime, _check_visible(who, consumer), who)
    served = runtime.queries.config.trained and bool(right.sources or right.shards)
    reach = runtime.reach(right) if served and count else None
    operator = who.role == OPERATOR
    held_out = runtime.queries.held_out_ids(SUGGESTED) if operator else []
    others = [name for name in runtime.queries.source_names() if name not in right.sources] if operator else []
    facts: dict[str, Any] = {"right": right, "served": served, "reach": reach, "others": others, "held_out": held_out}
    return render(request, "right.html", **facts | {"accuracy": None, "tried": None} | more)


def _right(runtime: Runtime, consumer: str, who: Caller) -> Right:
    """The right; a consumer who has none yet sees an empty one."""
    if who.role == CONSUMER and consumer not in runtime.queries.rights():
        return Right(consumer)
    return runtime.queries.right_of(consumer)


def _check_visible(who: Caller, consumer: str) -> str:
    """The consumer, if the caller may see its right; 404 otherwise."""
    if who.role == CONSUMER and consumer != who.name:
        raise HTTPException(404, "there is no such right")
    return consumer


def _address(consumer: str) -> str:
    return f"{LIST}/of?{urlencode({'consumer': consumer})}"
