"""A visitor of the pages without a browser: it keeps cookies, and sends forms as a page gives them."""

import json
import re
from html import unescape

import httpx
import pytest

from tests.service.conftest import Running

CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Visit:
    """One visitor's cookies and the forms' token that its last page carried."""

    def __init__(self, service: Running) -> None:
        self.client = httpx.Client(base_url=service.base, timeout=30)
        self.csrf = ""

    def get(self, path: str, **options: object) -> httpx.Response:
        return self._seen(self.client.get(path, **options))

    def post(self, path: str, data: dict | None = None, **options: object) -> httpx.Response:
        return self._seen(self.client.post(path, data={"csrf": self.csrf, **(data or {})}, **options))

    def log_in(self, token: str, **data: str) -> httpx.Response:
        self.get("/pages/login")
        return self.post("/pages/login", {"token": token, **data})

    def _seen(self, answer: httpx.Response) -> httpx.Response:
        found = CSRF.search(answer.text) if "html" in answer.headers.get("content-type", "") else None
        self.csrf = unescape(found.group(1)) if found else self.csrf
        return answer


def found(me: Visit, kind: str, wanted: str) -> httpx.Response:
    """What begins so, as a visitor sees it."""
    me.get("/pages/forget")
    return me.post("/pages/forget/find", {"kind": kind, "wanted": wanted}, follow_redirects=True)


def preview(me: Visit, kind: str, name: str, **more: str) -> httpx.Response:
    """What forgetting it would do, as a visitor sees it."""
    me.get("/pages/forget")
    sent = {"kind": kind, "name": json.dumps(name), **more}
    return me.post("/pages/forget/preview", sent, follow_redirects=True)


def forget(me: Visit, kind: str, name: str) -> httpx.Response:
    """Ask for something to be forgotten."""
    me.get("/pages/forget")
    return me.post("/pages/forget/submit", {"kind": kind, "name": json.dumps(name), "sure": "yes"})


@pytest.fixture
def visit(service):
    """Makes visitors of the running service."""
    made = []

    def make() -> Visit:
        made.append(Visit(service))
        return made[-1]

    yield make
    for one in made:
        one.client.close()
