"""Tokens and roles. The database keeps a hash of each token; the token itself is shown once, when it is created.

A token is `sg.NAME.SECRET`. The secret is 32 random bytes, so it needs no slow hash.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from shardgraph.errors import InputError
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import parties
from shardgraph.storage.tables.parties import Token

OWNER, OPERATOR, CONSUMER, AUDITOR = "owner", "operator", "consumer", "auditor"
ROLES = (OWNER, OPERATOR, CONSUMER, AUDITOR)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True)
class Caller:
    """Who calls: the name and role of a token, and the sources of an owner."""

    name: str
    role: str
    sources: tuple[str, ...] = ()


RESERVED = ("local", "record")  # askers without a token: local callers, and the erasure record of a restored workspace
LOCAL = Caller(RESERVED[0], OPERATOR)  # whoever reaches a service without tokens, which listens on loopback only


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
    """Make a token invalid from the next call on. Its name is kept, since a workspace without tokens accepts everybody;
    the names of its sources are not."""
    with catalogue.transaction() as transaction:
        if not parties.revoke_token(transaction, name):
            raise InputError(f"there is no token named {name!r}")


def caller_of(catalogue: Catalogue, token: str) -> Caller | None:
    """The caller of a token; None if the token is not valid. The comparison takes the same time in both cases."""
    kind, _, rest = token.partition(".")
    name, _, secret = rest.partition(".")
    found = parties.find_token(catalogue, name)
    right = hmac.compare_digest(_hash(secret), found.hash if found else _NOBODY)
    return Caller(found.name, found.role, found.sources) if found and right and kind == "sg" else None


def hash_of(catalogue: Catalogue, name: str) -> str:
    """The stored hash of a token; "" if there is no such token."""
    found = parties.find_token(catalogue, name)
    return found.hash if found else ""


def caller_named(catalogue: Catalogue, name: str, hash: str) -> Caller | None:
    """The caller of the token with this name and hash; None once it was revoked, also if its name was used again."""
    found = parties.find_token(catalogue, name)
    same = found is not None and found.hash != "" and hmac.compare_digest(found.hash, hash)
    return Caller(name, found.role, found.sources) if found and same else None


def any_token(catalogue: Catalogue) -> bool:
    """Whether this workspace has or ever had a token: from the first one on, every call needs a token."""
    return parties.any_token(catalogue)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
