"""Renders content as one HTML file without scripts, external fonts or external images."""

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from shardgraph.cli.report.content import (
    GONE,
    NOT_PROVED,
    PROVED,
    PROVED_WITH_PRIVATE_EDGES,
    REBUILT,
    Bar,
    Content,
)
from shardgraph.cli.report.drawing import colours, draw
from shardgraph.cli.report.style import CSS

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # the browser enforces it


def page(content: Content) -> str:
    """The HTML file of a report."""
    parts = [
        f"<h1>{escape(content.title)}</h1>",
        f'<p class="lead">{escape(content.lead)}</p>',
        _figures(content.figures),
        _graph(content),
        _pair(_bars("Accuracy on held-out samples", content.accuracy_words, content.accuracy), _cost(content)),
        _models(content.models),
        _pictures(content),
        _certificates(content),
        _section("This workspace", _facts(content.facts)) if content.facts else "",
        "<footer>Written by <code>shardgraph</code>. This file loads nothing from the network.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(content.title)}</title><style>{CSS}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _section(title: str, body: str, words: str = "") -> str:
    soft = f'<p class="soft">{escape(words)}</p>' if words else ""
    return f"<section><h2>{escape(title)}</h2>{soft}{body}</section>"


def _pair(*sections: str) -> str:
    there = [section for section in sections if section]
    return f'<div class="two">{"".join(there)}</div>' if len(there) > 1 else "".join(there)


def _figures(figures: Sequence[tuple[str, str]]) -> str:
    boxes = [f'<div class="figure"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for what, value in figures]
    return f'<div class="figures">{"".join(boxes)}</div>'


def _graph(content: Content) -> str:
    if content.graph is None or not content.graph.shards:
        return ""
    drawing = draw(content.graph, content.touched)
    side = f'<p class="soft">{escape(content.drawing_words)}</p>{_legend(content)}'
    return _section("The shard graph", f'<div class="split"><div>{drawing}</div><div>{side}</div></div>')


def _legend(content: Content) -> str:
    assert content.graph is not None
    fates = set(content.touched.values())
    states = {shard.state for shard in content.graph.shards if content.touched.get(shard.name) != GONE}
    untouched = any(shard.name not in content.touched for shard in content.graph.shards)
    dot = '<circle class="shard mixed {}" cx="11" cy="11" r="6"/>'
    ring = '<circle class="ring" cx="11" cy="11" r="9.5"/>'
    rows = [
        (REBUILT in fates, dot.format("") + ring, "rebuilt without the sample"),
        (GONE in fates, dot.format("gone"), "removed with its source"),
        ("missing" in states, dot.format("missing"), "withdrawn, to be rebuilt by repair"),
        ("idle" in states, dot.format("idle"), "no adapters: prototypes answer"),
        (bool(fates) and untouched, dot.format(""), "unchanged, byte for byte"),
    ]  # fmt: skip
    items = [f'<li><svg viewBox="0 0 22 22">{mark}</svg>{escape(words)}</li>' for there, mark, words in rows if there]
    named = [
        f'<li><svg viewBox="0 0 22 22"><circle class="shard {kind}" cx="11" cy="11" r="6"/></svg>{escape(name)}</li>'
        for name, kind in colours(content.graph).items()
    ]
    return f'<ul class="legend">{"".join(items)}</ul><ul class="legend sources">{"".join(named)}</ul>'


def _bars(title: str, words: str, bars: Iterable[Bar]) -> str:
    rows = [
        f'<div class="bar"><div class="what"><span>{escape(bar.name)}</span><b>{escape(bar.words)}</b></div>'
        f'<div class="track"><div class="fill{" main" if bar.main else ""}" style="width:{100 * bar.share:.2f}%"></div>'
        "</div></div>"
        for bar in bars
    ]
    return _section(title, "".join(rows), words) if rows else ""


def _cost(content: Content) -> str:
    return _bars("The cost of forgetting", content.cost_words, content.cost)


def _models(models: Sequence[tuple[str, str]]) -> str:
    if not models:
        return ""
    rows = "".join(f'<h3>{escape(who)}</h3><div class="digest">{escape(digest)}</div>' for who, digest in models)
    same = len({digest for _, digest in models}) == 1
    said = (
        '<p class="equal">Equal, byte for byte.</p>' if same else "<p><b>NOT EQUAL: please report this error.</b></p>"
    )
    return _section("Digests of the two models", f"{rows}<br>{said}")


def _pictures(content: Content) -> str:
    if not content.pictures:
        return ""
    shown = [
        f'<figure><img alt="{escape(p.words)}" src="data:image/png;base64,{base64.b64encode(p.png).decode()}">'
        f"<figcaption>{escape(p.words)}</figcaption></figure>"
        for p in content.pictures
    ]
    return _section("What was forgotten", f'<div class="pictures">{"".join(shown)}</div>', content.pictures_words)


def _certificates(content: Content) -> str:
    if not content.certificates:
        return ""
    proved = (
        PROVED_WITH_PRIVATE_EDGES if any(certificate.get("privacy") for certificate in content.certificates) else PROVED
    )
    lists = [f'<div><h3>{title}</h3><ul class="words">{_items(words)}</ul></div>'
             for title, words in (("What it proves", proved), ("What it does not prove", NOT_PROVED))]  # fmt: skip
    shown = "".join(_certificate(certificate) for certificate in content.certificates)
    checks = (
        f"<details><summary>Checks of the verification</summary>{_facts(content.checks)}</details>"
        if content.checks
        else ""
    )
    words = "Every forget creates a signed certificate, which contains the digest of the one before."
    return _section("The certificate", f'<div class="lists">{"".join(lists)}</div>{shown}{checks}', words)


def _certificate(certificate: dict[str, Any]) -> str:
    facts = [
        ("guarantee", certificate["guarantee"]),
        ("samples", str(len(certificate["entries"]))),
        ("time", certificate["time"]),
        ("model", certificate["model_digest"] or "none yet"),
        ("signed with", certificate["public_key"]),
        ("signature", certificate["signature"]),
    ]
    title = f"Certificate {certificate['number']}: {certificate['event']}"
    return f"<details><summary>{escape(title)}</summary>{_facts(facts)}</details>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in facts)}</dl>"


def _items(words: Iterable[str]) -> str:
    marked = (re.sub("`([^`]+)`", r"<code>\1</code>", escape(each)) for each in words)
    return "".join(f"<li>{each}</li>" for each in marked)
