"""Tokens and roles. The database keeps a hash of each token; the token itself is shown once, when it is created.

A token is `sg.NAME.SECRET`. The secret is 32 random bytes, so it needs no slow hash.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from shardgraph.errors import InputError
from shardgraph.forget.queue.queue import now
from shardgraph.storage.database import Catalogue

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
    if catalogue.one("SELECT 1 FROM tokens WHERE name = ? AND hash <> ''", name):
        raise InputError(f"there is a token named {name!r} already; revoke it first")
    secret = secrets.token_urlsafe(32)
    row = (name, role, json.dumps(sorted(set(sources))), _hash(secret), now())
    with catalogue.transaction() as db:
        db.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?)", row)
    return f"sg.{name}.{secret}"


def list_tokens(catalogue: Catalogue) -> list[dict[str, object]]:
    """Every token's name, role, sources and date; no secret."""
    rows = catalogue.all("SELECT name, role, sources, created FROM tokens WHERE hash <> '' ORDER BY name")
    return [{"name": n, "role": r, "sources": json.loads(s), "created": c} for n, r, s, c in rows]


def revoke_token(catalogue: Catalogue, name: str) -> None:
    """Make a token invalid from the next call on. Its name is kept: a workspace without tokens accepts everybody."""
    with catalogue.transaction() as db:
        if not db.execute("UPDATE tokens SET hash = '' WHERE name = ? AND hash <> ''", (name,)).rowcount:
            raise InputError(f"there is no token named {name!r}")


def caller_of(catalogue: Catalogue, token: str) -> Caller | None:
    """The caller of a token; None if the token is not valid. The comparison takes the same time in both cases."""
    kind, _, rest = token.partition(".")
    name, _, secret = rest.partition(".")
    row = catalogue.one("SELECT name, role, sources, hash FROM tokens WHERE name = ?", name)
    right = hmac.compare_digest(_hash(secret), row[3] if row else _NOBODY)
    return Caller(row[0], row[1], tuple(json.loads(row[2]))) if row and right and kind == "sg" else None


def hash_of(catalogue: Catalogue, name: str) -> str:
    """The stored hash of a token; "" if there is no such token."""
    row = catalogue.one("SELECT hash FROM tokens WHERE name = ?", name)
    return row[0] if row else ""


def caller_named(catalogue: Catalogue, name: str, hash: str) -> Caller | None:
    """The caller of the token with this name and hash; None once it was revoked, also if its name was used again."""
    row = catalogue.one("SELECT role, sources, hash FROM tokens WHERE name = ?", name)
    same = row is not None and row[2] != "" and hmac.compare_digest(row[2], hash)
    return Caller(name, row[0], tuple(json.loads(row[1]))) if row and same else None


def any_token(catalogue: Catalogue) -> bool:
    """Whether this workspace has or ever had a token: from the first one on, every call needs a token."""
    return catalogue.one("SELECT 1 FROM tokens LIMIT 1") is not None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
