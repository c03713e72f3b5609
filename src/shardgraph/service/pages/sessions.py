"""Sessions: who is logged in at the pages. They live in memory, so a service that starts anew has none.

A session's id is 32 random bytes in a cookie; only its hash is held. It is made new at every log-in, so that an id
which somebody planted before is worth nothing, and ends after some hours, at log-out, or with its token. A stranger
has such a cookie, too, and no session: nothing is held for those who only come by.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

HOURS = 8
MOST = 10_000  # sessions at a time; the oldest end first


@dataclass(frozen=True)
class Session:
    """Somebody who is logged in: the name of the token and that token's hash."""

    name: str
    hash: str
    ends: float


class Sessions:
    """The open sessions of one service, and the key that the tokens of its forms are made with."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock, self._key = clock, threading.Lock(), secrets.token_bytes(32)
        self._open: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, name: str, hash: str) -> str:
        """Begin a session; its id."""
        key = new_id()
        with self._lock:
            self._open[_hash(key)] = Session(name, hash, self._clock() + 3600 * HOURS)
            if len(self._open) > MOST:
                self._open.popitem(last=False)
        return key

    def find(self, key: str) -> Session | None:
        """The session of an id; None if there is none, or not any more."""
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
        """The token that goes with every form which is shown under this id."""
        return hmac.new(self._key, key.encode(), hashlib.sha256).hexdigest()


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(32)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
