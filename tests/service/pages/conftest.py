"""Visitors of the pages: a client without a browser, which keeps cookies and sends forms; and a real browser."""

import json
import re
from html import unescape

import httpx
import pytest

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from tests.service.conftest import RunningService, create_tokens
from tests.service.processes import Process
from tests.strategies import BY_SOURCE

ANN, BOB = BY_SOURCE["ann"][0].id, BY_SOURCE["bob"][0].id
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class PageClient:
    """One visitor's cookies, and the form token of its last page."""

    def __init__(self, service: RunningService) -> None:
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


def entered(visit, token: str) -> PageClient:
    """A visitor who is logged in."""
    me = visit()
    me.log_in(token)
    return me


def found(me: PageClient, kind: str, wanted: str) -> httpx.Response:
    """What begins so, as a visitor sees it."""
    me.get("/pages/forget")
    return me.post("/pages/forget/find", {"kind": kind, "wanted": wanted}, follow_redirects=True)


def preview(me: PageClient, kind: str, name: str, **more: str) -> httpx.Response:
    """What forgetting it would do, as a visitor sees it."""
    me.get("/pages/forget")
    sent = {"kind": kind, "name": json.dumps(name), **more}
    return me.post("/pages/forget/preview", sent, follow_redirects=True)


def forget(me: PageClient, kind: str, name: str) -> httpx.Response:
    """Ask for something to be forgotten."""
    me.get("/pages/forget")
    return me.post("/pages/forget/submit", {"kind": kind, "name": json.dumps(name), "sure": "yes"})


@pytest.fixture
def visit(service):
    """Makes visitors of the running service."""
    made = []

    def make() -> PageClient:
        made.append(PageClient(service))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    from tests.service.pages.browser import chromium  # only these tests need Playwright

    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served(module_root):
    """`shardgraph serve` as people run it, with a token of every role; two requests are done."""
    tokens = create_tokens(module_root)
    with Workspace(module_root) as workspace:
        workspace.consumers.grant("the-consumer", sources=["web"])
        workspace.queue.submit(Submission(ForgetRequest(samples=(BY_SOURCE["bob"][2].id,))))
        workspace.queue.submit(Submission(ForgetRequest(samples=(BY_SOURCE["ann"][2].id,)), asker="the-owner"))
    with Process(module_root) as process:
        process.until_ready()
        with Workspace(module_root) as workspace:
            workspace.queue.wait_for(1)
            workspace.queue.wait_for(2)
        yield process, tokens


@pytest.fixture
def logged_in(served, browser):
    """Logs a role in, in a browser context of its own; an error on the console fails the test."""
    from tests.service.pages.browser import DESKTOP

    process, tokens = served
    complaints, contexts = [], []

    def log_in(role, viewport=DESKTOP, **options):
        context = browser.new_context(viewport=viewport, base_url=f"http://127.0.0.1:{process.port}", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.goto("/")
        page.get_by_label("Token").fill(tokens[role])
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("button", name="Log out").wait_for()
        return page

    yield log_in
    for context in contexts:
        context.close()
    assert [one for one in complaints if "status of 40" not in one and "status of 422" not in one] == []


@pytest.fixture
def local(service, browser):
    """A page of a service without tokens, whose requests are carried out when a test says so."""
    from tests.service.pages.browser import DESKTOP

    context = browser.new_context(viewport=DESKTOP, base_url=service.base)
    yield context.new_page()
    context.close()
