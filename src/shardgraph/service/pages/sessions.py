"""Sessions and encrypted addresses. Both live in memory: a service that is restarted knows none of the old ones.

A session's id is 32 random bytes in a cookie; only its hash is kept. A login always creates a new id, so an id that
somebody else planted before is useless. A session ends after some hours, at logout, or with its token. Visitors who are
not logged in have such a cookie but no session: nothing is kept for them.
"""

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from cryptography.fernet import Fernet, InvalidToken

HOURS = 8
MAX_SESSIONS = 10_000  # the oldest end first
MAX_ENCRYPTED = 10_000  # characters of an encrypted part of an address


@dataclass(frozen=True)
class Session:
    """Somebody who is logged in: the name and the hash of the token, and when the session ends."""

    name: str
    hash: str
    ends: float


class Sessions:
    """The open sessions of one service, and the key of its forms' tokens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock, self._key = clock, threading.Lock(), secrets.token_bytes(32)
        self._open: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, name: str, hash: str) -> str:
        """Begin a session and return its id."""
        key = new_id()
        with self._lock:
            self._open[_hash(key)] = Session(name, hash, self._clock() + 3600 * HOURS)
            if len(self._open) > MAX_SESSIONS:
                self._open.popitem(last=False)
        return key

    def find(self, key: str) -> Session | None:
        """The session of an id; None if there is none, or if it has ended."""
        with self._lock:
            found = self._open.get(_hash(key))
        if found is not None and found.ends <= self._clock():
            self.close(key)
            return None
        return found

    def close(self, key: str) -> None:
        """End a session."""
        with self._lock:
            self._open.pop(_hash(key), None)

    def csrf(self, key: str) -> str:
        """The token of every form that is shown under this id."""
        return hmac.new(self._key, key.encode(), hashlib.sha256).hexdigest()


class EncryptedAddresses:
    """Addresses of pages whose query is encrypted: browsers, proxies and logs that keep them learn no name.

    They are valid for as long as a session.
    """

    def __init__(self) -> None:
        self._key = Fernet(Fernet.generate_key())

    def encrypt(self, path: str, **facts: str) -> str:
        """The address of the page at `path` with these facts."""
        raw = json.dumps([path, facts], ensure_ascii=False).encode()
        return f"{path}?{urlencode({'of': self._key.encrypt(raw).decode()})}"

    def decrypt(self, path: str, encrypted: str) -> dict[str, str] | None:
        """The facts in an address of this page; None if it is not valid, or not any more."""
        try:
            where, facts = json.loads(self._key.decrypt(encrypted.encode(), ttl=3600 * HOURS))
        except InvalidToken:
            return None
        return facts if where == path else None


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(32)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
