"""Addresses that name nobody: what a page is about, sealed with a key that dies with the service."""

import json
from urllib.parse import urlencode

from cryptography.fernet import Fernet, InvalidToken
from fastapi import Request

from shardgraph.service.pages.sessions import HOURS

MOST = 10_000  # letters of a sealed name


class Seal:
    """Seals facts into an address, and opens them again, for as long as a session lasts."""

    def __init__(self) -> None:
        self._key = Fernet(Fernet.generate_key())

    def address(self, path: str, **facts: str) -> str:
        """The address of the page at `path` that is about these facts."""
        raw = json.dumps([path, facts], ensure_ascii=False).encode()
        return f"{path}?{urlencode({'of': self._key.encrypt(raw).decode()})}"

    def open(self, path: str, sealed: str) -> dict[str, str] | None:
        """The facts in an address of that page; None if it was not made here, or long ago."""
        try:
            where, facts = json.loads(self._key.decrypt(sealed.encode(), ttl=3600 * HOURS))
        except InvalidToken:
            return None
        return facts if where == path else None


def the_seal(request: Request) -> Seal:
    """The seal of this service."""
    return request.app.state.seal
