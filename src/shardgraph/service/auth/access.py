"""Tokens and roles: who calls, whether that role may call a route, and what an owner may see and ask for.

A token is `sg.NAME.SECRET`. The secret is 32 random bytes, so it needs no slow hash. The database keeps a hash of each
token; the token itself is shown once, when it is created. Tokens are looked up on the event loop: one statement by
primary key takes less time than handing it to a thread.

Every route names the roles that it accepts. To an owner, samples of other sources do not exist.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from shardgraph.errors import InputError, UnknownSample
from shardgraph.forget import ForgetRequest, opens
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import parties
from shardgraph.storage.tables.parties import Token
from shardgraph.storage.tables.requests import DONE
from shardgraph.storage.tables.requests import Request as StoredRequest

OWNER, OPERATOR, CONSUMER, AUDITOR = "owner", "operator", "consumer", "auditor"
ROLES = (OWNER, OPERATOR, CONSUMER, AUDITOR)
RESERVED = ("local", "record")  # askers without a token: local callers, and the erasure record of a restored workspace
FAILED = (
    "the request could not be carried out, and what it names stays out of service; the operator can see why and retry "
    "it: ask the operator, with this request's number"
)
bearer = HTTPBearer(auto_error=False, description="`Authorization: Bearer sg.NAME.SECRET`, made by `shardgraph token`")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


# Callers


@dataclass(frozen=True)
class Caller:
    """Who calls: the name and role of a token, and the sources of an owner."""

    name: str
    role: str
    sources: tuple[str, ...] = ()


LOCAL = Caller(RESERVED[0], OPERATOR)  # whoever reaches a service without tokens, which listens on loopback only


# Tokens


def create_token(catalogue: Catalogue, name: str, role: str, sources: Sequence[str] = ()) -> str:
    """Create a token and return it; it cannot be read again later."""
    if not _NAME.fullmatch(name):
        raise InputError(f"a token's name must be 1 to 64 letters, digits, - or _, got {name!r}")
    if name in RESERVED:
        raise InputError(f"a token must not be named {' or '.join(RESERVED)}: requests without a token have that name")
    if role not in ROLES:
        raise InputError(f"a role must be one of {', '.join(ROLES)}, got {role!r}")
    if (role == OWNER) != bool(sources):
        raise InputError("an owner's token must name its sources, and only an owner's may")
    if hash_of(catalogue, name):
        raise InputError(f"there is a token named {name!r} already; revoke it first")
    secret = secrets.token_urlsafe(32)
    token = Token(name, role, tuple(sorted(set(sources))), _hash(secret), datetime.now(UTC).isoformat())
    with catalogue.transaction() as transaction:
        parties.save_token(transaction, token)
    return f"sg.{name}.{secret}"


def list_tokens(catalogue: Catalogue) -> list[dict[str, object]]:
    """Every token's name, role, sources and date; no secret."""
    return [
        {"name": token.name, "role": token.role, "sources": list(token.sources), "created": token.created}
        for token in parties.find_tokens(catalogue)
    ]


def revoke_token(catalogue: Catalogue, name: str) -> None:
    """Make a token invalid from the next call on. Its name is kept: a workspace without tokens accepts everybody."""
    with catalogue.transaction() as transaction:
        if not parties.revoke_token(transaction, name):
            raise InputError(f"there is no token named {name!r}")


def any_token(catalogue: Catalogue) -> bool:
    """Whether this workspace has or ever had a token: from the first one on, every call needs a token."""
    return parties.any_token(catalogue)


def caller_of(catalogue: Catalogue, token: str) -> Caller | None:
    """The caller of a token; None if the token is not valid. The comparison takes the same time in both cases."""
    kind, _, rest = token.partition(".")
    name, _, secret = rest.partition(".")
    found = parties.find_token(catalogue, name)
    right = hmac.compare_digest(_hash(secret), found.hash if found else _NOBODY)
    return Caller(found.name, found.role, found.sources) if found and right and kind == "sg" else None


def caller_named(catalogue: Catalogue, name: str, hash: str) -> Caller | None:
    """The caller of the token with this name and hash; None once it was revoked, also if its name was used again."""
    found = parties.find_token(catalogue, name)
    same = found is not None and found.hash != "" and hmac.compare_digest(found.hash, hash)
    return Caller(name, found.role, found.sources) if found and same else None


def hash_of(catalogue: Catalogue, name: str) -> str:
    """The stored hash of a token; "" if there is no such token."""
    found = parties.find_token(catalogue, name)
    return found.hash if found else ""


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# The caller of a route, as FastAPI dependencies


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


# What an owner may see and ask for


def check_owned(runtime: Runtime, who: Caller, request: ForgetRequest) -> None:
    """Raise unless all that an owner's request names is the owner's.

    Data of others, erased or not, and data that never existed give the same error.
    """
    if who.role == OWNER and not _owns(runtime, who, request):
        raise UnknownSample("never seen here among the sources of this token")


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
    return replace(stored, failure=FAILED) if hidden else stored


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


def _owns(runtime: Runtime, who: Caller, request: ForgetRequest) -> bool:
    try:
        data = runtime.queries.selected_data(request)
    except UnknownSample:
        return False
    return data.sources <= set(who.sources) and all(may_know_erased(runtime, who, *one) for one in data.erased)
