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
from shardgraph.forget import ForgetRequest, opens
from shardgraph.service.auth.tokens import AUDITOR, CONSUMER, LOCAL, OPERATOR, OWNER, Caller, any_token, caller_of
from shardgraph.service.runtime.runtime import Runtime
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


def check_owned(runtime: Runtime, who: Caller, request: ForgetRequest) -> None:
    """Raise unless all that an owner's request names is the owner's.

    Data of others, erased or not, and data that never existed give the same error.
    """
    if who.role == OWNER and not _owns(runtime, who, request):
        raise UnknownSample("never seen here among the sources of this token")


def _owns(runtime: Runtime, who: Caller, request: ForgetRequest) -> bool:
    try:
        data = runtime.queries.selected_data(request)
    except UnknownSample:
        return False
    return data.sources <= set(who.sources) and all(may_know_erased(runtime, who, *one) for one in data.erased)


def may_know_erased(runtime: Runtime, who: Caller, kind: str, name: str) -> bool:
    """Whether the caller may know that this was forgotten: an owner only if it asked for it, or it is its source.

    A certificate covers all requests of a batch: that an owner asked for one does not entitle it to know the others.
    """
    if who.role != OWNER or (kind == "sources" and name in who.sources):
        return True
    return runtime.queries.was_asked_by(who.name, kind, name)


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
