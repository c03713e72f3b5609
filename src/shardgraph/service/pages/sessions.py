"""Sessions: who is logged in at the pages. They live in memory, so a service that starts anew has none.

A session's id is 32 random bytes in a cookie; only its hash is held. It is made new at every log-in, so that an id
which somebody planted before is worth nothing, and ends after some hours, at log-out, or with its token.
"""

import hashlib
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
    """One visitor: the name of its token and that token's hash, both "" where none is needed, or none was shown yet."""

    name: str
    hash: str
    csrf: str  # goes with every form
    ends: float


class Sessions:
    """The open sessions of one service. Those of strangers, who only see the log-in form, push nobody out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._strangers: OrderedDict[str, Session] = OrderedDict()

    def open(self, name: str = "", hash: str = "") -> tuple[str, Session]:
        """A new session under a new id."""
        key = secrets.token_urlsafe(32)
        session = Session(name, hash, secrets.token_urlsafe(32), self._clock() + 3600 * HOURS)
        with self._lock:
            pool = self._known if name else self._strangers
            pool[_hash(key)] = session
            if len(pool) > MOST:
                pool.popitem(last=False)
        return key, session

    def find(self, key: str) -> Session | None:
        """The session of an id; None if there is none, or not any more."""
        with self._lock:
            found = self._known.get(_hash(key)) or self._strangers.get(_hash(key))
        if found is not None and found.ends <= self._clock():
            self.close(key)
            return None
        return found

    def close(self, key: str) -> None:
        """End a session."""
        with self._lock:
            self._known.pop(_hash(key), None)
            self._strangers.pop(_hash(key), None)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
