"""From facts to HTML: the templates, and how numbers, shares, durations and names are written."""

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
from shardgraph.service.auth.tokens import AUDITOR, CONSUMER, OPERATOR, OWNER

PREFIX = "/pages"
NAVIGATION = (  # title, path, and the roles that see it
    ("Overview", "", (OPERATOR, AUDITOR, OWNER)),
    ("Graph", "/graph", (OPERATOR, AUDITOR)),
    ("Forget", "/forget", (OPERATOR, OWNER)),
    ("Requests", "/requests", (OPERATOR, AUDITOR, OWNER)),
    ("Proof", "/proof", (OPERATOR, AUDITOR, OWNER)),
    ("Rights", "/rights", (OPERATOR, AUDITOR, CONSUMER)),
)


def render(request: Request, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page. Everything in it is escaped; a name that the template uses and nobody gave is an error."""
    visitor = getattr(request.state, "visitor", None)
    role = visitor.caller.role if visitor and visitor.caller else None
    navigation = [(title, PREFIX + path) for title, path, roles in NAVIGATION if role in roles]
    given = {"navigation": navigation, "visitor": visitor, "here": request.url.path}
    given |= {"prefix": PREFIX, "version": __version__}
    return HTMLResponse(_environment().get_template(template).render(given | facts), status)


def home_of(role: str) -> str:
    """The first page that a role sees."""
    return next(PREFIX + path for _, path, roles in NAVIGATION if role in roles)


def format_share(value: float) -> str:
    """A share as a percentage, with as many digits as it needs."""
    return f"{value:.0%}" if value in (0, 1) else f"{value:.1%}" if value >= 0.01 else f"{value:.2%}"


def format_duration(seconds: float | None) -> str:
    """Seconds in words."""
    if seconds is None or not math.isfinite(seconds):
        return "not known yet"
    for size, word in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"


def seconds_until(deadline: str) -> float:
    """Seconds until a deadline; negative once it has passed."""
    return (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds()


def make_visible(name: str) -> str:
    """A name in which nothing is hidden: a character that does not show, or changes the direction of text, is written
    as its code point."""
    shown = "".join(letter if letter.isprintable() else _code_point(letter) for letter in name)
    inner = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    return _code_point(" ") * before + inner + _code_point(" ") * (len(shown) - before - len(inner))


def format_name(name: str) -> Markup:
    """A name for a page: visible, and with a text direction of its own."""
    return Markup("<bdi>{}</bdi>").format(make_visible(name))


def _code_point(letter: str) -> str:
    return f"⟨U+{ord(letter):04X}⟩"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("shardgraph.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "share": format_share,
        "duration": format_duration,
        "seconds_until": seconds_until,
        "number": lambda value: f"{value:,}",
        "visible": make_visible,
        "show_name": format_name,
        "as_json": json.dumps,
    }
    return environment
