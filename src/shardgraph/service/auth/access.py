"""Who calls, whether that role may call a route, and what an owner may see and ask for.

Every route names the roles that it accepts. To an owner, samples of other sources do not exist.

Tokens are looked up on the event loop: one statement by primary key takes less time than handing it to a thread.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from shardgraph.errors import UnknownSample
from shardgraph.forget import ForgetRequest, Submission, opens
from shardgraph.service.auth.tokens import AUDITOR, CONSUMER, LOCAL, OPERATOR, OWNER, Caller, any_token, caller_of
from shardgraph.service.runtime.models import Models
from shardgraph.service.runtime.runtime import LEASES, Runtime
from shardgraph.storage.tables.requests import DONE
from shardgraph.storage.tables.requests import FAILED as FAILED_STATE
from shardgraph.storage.tables.requests import Request as StoredRequest

ASK = "ask the operator, with this request's number"
FAILED = (
    "the request could not be carried out, and what it names stays out of service; the operator can see why and retry "
    f"it: {ASK}"
)
WAITS = (
    "the request is accepted, and nothing that saw what it names is used; the erasure waits, because a file of the "
    f"service is damaged, and is carried out when the operator has restored it: {ASK}"
)
UNVERIFIED = (
    "what the request names is erased, but a check afterwards failed, so that there is no certificate yet; the "
    f"operator can see why and retry it: {ASK}"
)
INCOMPLETE = (
    "what the request names is erased, and nothing that saw it is used; parts of the model could not be rebuilt "
    f"without it yet: {ASK}"
)
bearer = HTTPBearer(auto_error=False, description="`Authorization: Bearer sg.NAME.SECRET`, made by `shardgraph token`")


async def get_runtime(request: Request) -> Runtime:
    """The runtime of this service."""
    runtime: Runtime = request.app.state.runtime
    return runtime


CurrentRuntime = Annotated[Runtime, Depends(get_runtime)]


async def get_models(request: Request, runtime: CurrentRuntime) -> Models:
    """This call's access to models; the gate sends what they made, or refuses it."""
    return Models(runtime, request.scope[LEASES])


CurrentModels = Annotated[Models, Depends(get_models)]


async def get_caller(
    request: Request, runtime: CurrentRuntime, token: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Caller:
    """Who calls; in a workspace without tokens, whoever reaches the service."""
    found = caller_of(runtime.catalogue, token.credentials) if token else None
    if found is None and token is None and not any_token(runtime.catalogue):
        found = LOCAL
    if found is None:
        raise HTTPException(401, "a valid token is needed", {"WWW-Authenticate": "Bearer"})
    request.state.caller = found
    return found


def allow(*roles: str) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency: the caller, if its role is one of these."""

    async def check(who: Annotated[Caller, Depends(get_caller)]) -> Caller:
        if who.role not in roles:
            raise HTTPException(403, f"this is for {' and '.join(roles)}, not for the role {who.role}")
        return who

    return check


Asker = Annotated[Caller, Depends(allow(OPERATOR, OWNER))]  # may make requests
Operator = Annotated[Caller, Depends(allow(OPERATOR))]
Predictor = Annotated[Caller, Depends(allow(OPERATOR, CONSUMER))]
Inspector = Annotated[Caller, Depends(allow(OPERATOR, AUDITOR))]  # may read what concerns the whole workspace
Reader = Annotated[Caller, Depends(allow(OPERATOR, AUDITOR, OWNER))]  # may read requests; an owner, its own


def limit_to_owned(runtime: Runtime, who: Caller, request: ForgetRequest) -> Submission:
    """A request as the caller may submit it: an owner's names mean the samples of the owner's sources and no others.

    A subject, label or shard is replaced by its samples in these sources. A name without any is an error, unless the
    owner had it forgotten before. What other sources hold, held or never held gives the same answer.
    """
    if who.role != OWNER:
        return Submission(request, who.name)
    found = runtime.queries.samples_within(request, who.sources)
    earlier = [runtime.queries.request_naming(who.name, *one) for one, ids in found.items() if not ids]
    if None in earlier:
        raise UnknownSample("never seen here among the sources of this token")
    sources = tuple(name for (kind, name), ids in found.items() if kind == "sources" and ids)
    samples = {sample for (kind, _), ids in found.items() if kind != "sources" for sample in ids}
    own = ForgetRequest(samples=tuple(sorted(samples)), sources=sources, reason=request.reason)
    last = None if own.selectors() else max(number for number in earlier if number is not None)
    return Submission(own, who.name, named=tuple(request.selectors()), earlier=last)


def only_owned(runtime: Runtime, who: Caller, ids: Iterable[str]) -> list[str]:
    """Those of the samples that the caller may know of."""
    ids = list(ids)
    if who.role != OWNER:
        return ids
    return [name for name, source in runtime.queries.sources_of(ids).items() if source in who.sources]


def redact(stored: StoredRequest, who: Caller | None) -> StoredRequest:
    """A request as the caller may see it: why it failed may name data of others, and is not shown to an owner."""
    hidden = stored.failure and (who is None or who.role == OWNER)
    return replace(stored, failure=_said_to_owner(stored)) if hidden else stored


def _said_to_owner(stored: StoredRequest) -> str:
    """What an owner is told of a request that failed or waits; every word of it is true, and it names no file."""
    if stored.state != FAILED_STATE:
        return WAITS
    if stored.erasure is None:
        return FAILED
    return UNVERIFIED if stored.certificate is None else INCOMPLETE


def find_request(runtime: Runtime, number: int, who: Caller) -> StoredRequest:
    """A request as the caller may see it; 404 for one that it may not see."""
    asker = runtime.asker_of(number)
    if asker is None or (who.role == OWNER and asker != who.name):
        raise HTTPException(404, f"there is no request {number}")
    return redact(runtime.request(number), who)


def certificate_number(runtime: Runtime, number: int, who: Caller) -> int:
    """The number of the certificate of a request that the caller may see; 409 until the request is done."""
    stored = find_request(runtime, number, who)
    if stored.certificate is None or stored.state != DONE:
        raise HTTPException(409, f"request {number} is {stored.state}; its certificate exists when it is done")
    return stored.certificate


def nonces_for(runtime: Runtime, who: Caller, certificate: int, samples: Sequence[str]) -> dict[str, str]:
    """The nonces that open samples' entries in a certificate; an owner gets those of samples that it asked for."""
    queries = runtime.queries
    found, nonces = queries.certificate(certificate), queries.nonces(certificate, samples)
    for name, nonce in nonces.items():
        own = who.role != OWNER or queries.was_asked_by(who.name, "samples", name, certificate)
        if not own or not opens(found, name, nonce):
            raise UnknownSample(f"certificate {certificate} has no entry for {name!r}", [name])
    return nonces
