"""From facts to HTML: the templates, and how numbers, shares and spans of time are written."""

import json
import math
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shardgraph import __version__
from shardgraph.service.tokens import AUDITOR, CONSUMER, OPERATOR, OWNER

PREFIX = "/pages"
PLACES = (  # what stands in the navigation, and who sees it
    ("Overview", "", (OPERATOR, AUDITOR, OWNER)),
    ("Graph", "/graph", (OPERATOR, AUDITOR)),
    ("Forget", "/forget", (OPERATOR, OWNER)),
    ("Requests", "/requests", (OPERATOR, AUDITOR, OWNER)),
    ("Proof", "/proof", (OPERATOR, AUDITOR, OWNER)),
    ("Rights", "/rights", (OPERATOR, AUDITOR, CONSUMER)),
)


def render(request: Request, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page. Everything in it is escaped; a name that the template asks for and nobody gave is an error."""
    visitor = getattr(request.state, "visitor", None)
    role = visitor.caller.role if visitor and visitor.caller else None
    places = [(name, PREFIX + path) for name, path, roles in PLACES if role in roles]
    given = {"places": places, "visitor": visitor, "here": request.url.path, "prefix": PREFIX, "version": __version__}
    return HTMLResponse(_environment().get_template(template).render(given | facts), status)


def home_of(role: str) -> str:
    """The first page that a role sees."""
    return next(PREFIX + path for _, path, roles in PLACES if role in roles)


def share(value: float) -> str:
    """A share as a percentage, with as many digits as it needs."""
    return f"{value:.0%}" if value in (0, 1) else f"{value:.1%}" if value >= 0.01 else f"{value:.2%}"


def span(seconds: float | None) -> str:
    """Seconds in words."""
    if seconds is None or not math.isfinite(seconds):
        return "not known yet"
    for size, word in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"


def left(deadline: str) -> float:
    """Seconds until a deadline; negative once it has passed."""
    return (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds()


def visible(name: str) -> str:
    """A name in which nothing hides: what does not show, or turns the text around, is written as its code point."""
    shown = "".join(letter if letter.isprintable() else _code(letter) for letter in name)
    inner = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    return _code(" ") * before + inner + _code(" ") * (len(shown) - before - len(inner))


def named(name: str) -> Markup:
    """A name for a page: visible, and in a direction of its own."""
    return Markup("<bdi>{}</bdi>").format(visible(name))


def _code(letter: str) -> str:
    return f"⟨U+{ord(letter):04X}⟩"


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("shardgraph.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"share": share, "span": span, "left": left, "number": lambda value: f"{value:,}"}
    found.filters |= {"visible": visible, "named": named, "sent": json.dumps}
    return found
