"""What is refused before any route sees it, as a page: a form that is too large."""

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardgraph.service.pages.rendering import PREFIX, render

WORDS = "What was sent is larger than a form may be. Nothing was changed."


class Refused:
    """Answers a person who sent too much to the pages with a page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(f"{PREFIX}/"):
            return await self.app(scope, receive, send)
        refused = False

        async def looked_at(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                refused = message["status"] == 413 and _kind(message) == b"application/json"
            if not refused:
                await send(message)

        await self.app(scope, receive, looked_at)
        if refused:
            page = render(Request(scope), "failure.html", 413, title="Too large", words=WORDS, code=413)
            page.headers["Connection"] = "close"
            await page(scope, receive, send)


def _kind(start: Message) -> bytes:
    return dict(start["headers"]).get(b"content-type", b"")
