"""A workspace whose every name is unusual, callers of every kind, and one walk over all routes and pages.

Three sources share a subject and a label; every other name belongs to one of them. The graph declares ALPHA as a safe
source, and ALPHA is the one that is forgotten.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
from fastapi.routing import APIRoute

from shardgraph.forget.queue.statistics import measure
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.auth.tokens import create_token
from shardgraph.service.pages.rendering import format_share
from shardgraph.service.pages.router import ROUTERS, fallback
from shardgraph.storage.samples import Samples
from tests.service.conftest import RunningService
from tests.service.pages.conftest import PageClient
from tests.strategies import QUICK, Row, embed

PLACE = "zqplace-of-the-server"
WORDS = ("alpha", "beta", "gamma")
SOURCES = ALPHA, BETA, GAMMA = tuple(f"zqsource-{word}" for word in WORDS)
SUBJECT, LABEL = "zqsubject-of-both", "zqlabel-of-both"
SUBJECTS, LABELS, IDS = (  # the ids begin so
    {source: f"zq{kind}-of-{word}" for source, word in zip(SOURCES, WORDS, strict=True)}
    for kind in ("subject", "label", "id")
)
HELD_OUT = {ALPHA: (7, 1), BETA: (6, 2), GAMMA: (5, 2)}  # how many, and how many of them under a wrong label
NEVER = "zqnever-here"
NAMES = {source: (source, SUBJECTS[source], LABELS[source], IDS[source]) for source in SOURCES}
EVERYTHING = (PLACE, SUBJECT, LABEL, *(name for names in NAMES.values() for name in names))

CALLERS = ("nobody", "stranger", "operator", "auditor", "owner-one", "owner-two", "shop-one", "shop-two")
SOURCE_OF = {"owner-one": ALPHA, "owner-two": BETA, "shop-one": ALPHA, "shop-two": BETA}
OWNERS, CONSUMERS = ("owner-one", "owner-two"), ("shop-one", "shop-two")
TIME = r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:\+00:00|Z| UTC)?"


def samples_of(source: str) -> Samples:
    """Eight samples to train on, and some that are held out."""
    train = [
        Row(f"{IDS[source]}-{i}", (LABELS[source], LABEL)[i % 2], source, (SUBJECT, SUBJECTS[source])[i // 2 % 2])
        for i in range(8)
    ]
    count, wrong = HELD_OUT[source]
    test = [Row(f"{IDS[source]}-t{i}", LABELS[source], source, "", "test") for i in range(count)]
    found = embed(train + test)
    return replace(found, labels=(*found.labels[: len(found) - wrong], *[LABEL] * wrong))


def create(root: Path) -> dict[str, str | None]:
    """Make the workspace; returns the token of every caller."""
    with Workspace.create(root, seed=0, workers=1) as workspace:
        for source in SOURCES:
            workspace.add(samples_of(source))
        workspace.train(BySource(safe=(ALPHA,)), QUICK)
        catalogue = workspace.context.catalogue
        tokens: dict[str, str | None] = {"nobody": None}
        for name in CALLERS[2:]:
            role = name.split("-")[0].replace("shop", "consumer")
            tokens[name] = create_token(catalogue, name, role, (SOURCE_OF[name],) if role == "owner" else ())
        for name in CONSUMERS:
            workspace.consumers.grant(name, sources=[SOURCE_OF[name]])
            workspace.consumers.provision(name)
    return tokens | {"stranger": f"{tokens['operator']}x"}


def accuracy_of(root: Path) -> tuple[str, str]:
    """Measure the whole model and record it, as the worker does; the accuracy as pages and as JSON write it."""
    with Workspace(root, workers=1) as workspace:
        context = workspace.context
        measure(context.catalogue, context.keys, workspace.model().digest, workspace.evaluate)
        accuracy = workspace.evaluate()["accuracy"]
    assert 0 < accuracy < 1, "an accuracy that can be recognised"
    return format_share(accuracy), json.dumps(accuracy)


@dataclass(frozen=True)
class Call:
    """One call of a route or a page: how it is named there, and what is sent."""

    method: str
    route: str
    path: str
    options: dict = field(default_factory=dict)

    @property
    def sent(self) -> str:
        """Everything that the caller says itself."""
        return f"{self.path} {self.options}"


def api_calls(state: str, request: int, consumer: str) -> list[Call]:
    """At least one call of every route; none changes what later calls see, whoever makes it."""
    bodies = [
        {"samples": [f"{IDS[source]}-1"]} for source in NAMES
    ] + [
        {kind: [name]}
        for kind, names in {
            "sources": SOURCES,
            "subjects": (SUBJECT, *SUBJECTS.values()),
            "labels": (LABEL, *LABELS.values()),
            "shards": SOURCES,
        }.items()
        for name in names
    ]  # fmt: skip
    bodies += [{"samples": [NEVER]}, {"subjects": [SUBJECT, NEVER]}, {"samples": []}]
    numbered = "/requests/{number}"
    number = f"/requests/{request}"
    features = {"json": {"features": [[0.5] * 8], "top": 1000}}
    calls = [Call("POST", "/requests/preview", "/requests/preview", {"json": body}) for body in bodies]
    calls += [
        Call("POST", "/requests/preview", "/requests/preview", {"json": body | {"twins": True}}) for body in bodies
    ]
    calls += [Call("POST", "/requests", "/requests", {"json": {"samples": [NEVER]}})]
    calls += [
        Call("GET", "/requests", "/requests"),
        Call("GET", numbered, number),
        Call("GET", numbered, "/requests/99"),
    ]
    calls += [Call("POST", f"{numbered}/{act}", f"{number}/{act}") for act in ("cancel", "retry")]
    calls += [Call("GET", f"{numbered}/{what}", f"{number}/{what}") for what in ("certificate", "events")]
    calls += [
        Call("POST", f"{numbered}/nonces", f"{number}/nonces", {"json": {"samples": [name]}})
        for name in (f"{IDS[ALPHA]}-1", f"{IDS[BETA]}-1", NEVER)
    ]
    calls += [Call("POST", "/predictions", "/predictions", features)]
    calls += [Call("POST", "/predictions/arrays", "/predictions/arrays", {"content": b"no arrays"})]
    calls += [Call("POST", "/predictions/images", "/predictions/images", {"files": {"files": b"no image"}})]
    calls += [Call("POST", "/predictions/texts", "/predictions/texts", {"json": {"texts": ["a text"]}})]
    calls += [Call("GET", path, path) for path in ("/rights", "/ledger", "/status", "/metrics", "/public-key")]
    calls += [Call("GET", path, path) for path in ("/health", "/ready")]
    calls += [Call("GET", "/certificates/{number}", f"/certificates/{number}") for number in (1, 99)]
    calls += [Call("GET", "/states/{state}", f"/states/{state}") for state in (state, "0" * 32)]
    calls += [
        Call("POST", f"/rights/{{consumer}}/{act}", f"/rights/{consumer}/{act}", {"json": {"sources": [BETA]}})
        for act in ("grant", "provision", "revoke")
    ]
    return calls


def page_calls(state: str, request: int, consumer: str) -> list[Call]:
    """At least one visit of every page, and one of every form; none changes what later visits see."""
    names = {
        "sample": (IDS[ALPHA], IDS[BETA], f"{IDS[ALPHA]}-1", f"{IDS[BETA]}-1", NEVER),
        "subject": (SUBJECT, *SUBJECTS.values(), NEVER),
        "source": (*SOURCES, NEVER),
    }
    calls = [Call("GET", "/", "/")]
    calls += [Call("GET", path, path) for path in (f"/pages{end}" for end in ("", "/login", "/graph", "/graph.json"))]
    calls += [Call("GET", "/pages/graph/shard", f"/pages/graph/shard?name={name}") for name in (*SOURCES, NEVER)]
    calls += [
        Call("GET", path, path) for path in (f"/pages/{end}" for end in ("forget", "requests", "proof", "rights"))
    ]
    calls += [
        Call("GET", "/pages/{rest:path}", "/pages/nowhere"),
        Call("GET", "/pages/forget/preview", "/pages/forget/preview"),
    ]
    for kind, given in names.items():
        for name in given:
            form = {"kind": kind, "wanted": name}
            calls.append(Call("POST", "/pages/forget/find", "/pages/forget/find", {"data": form}))
            for more in ({}, {"twins": "yes"}):
                form = {"kind": kind, "name": json.dumps(name), **more}
                calls.append(Call("POST", "/pages/forget/preview", "/pages/forget/preview", {"data": form}))
    unsure = {"kind": "sample", "name": json.dumps(f"{IDS[ALPHA]}-1")}
    calls += [Call("POST", "/pages/forget/submit", "/pages/forget/submit", {"data": unsure})]
    numbered = "/pages/requests/{number}"
    for where in (request, 99):
        calls += [Call("GET", numbered, f"/pages/requests/{where}")]
        calls += [Call("GET", f"{numbered}/events", f"/pages/requests/{where}/events")]
        calls += [Call("POST", f"{numbered}/{act}", f"/pages/requests/{where}/{act}") for act in ("cancel", "retry")]
        proof, shown = "/pages/proof/{number}", f"/pages/proof/{where}"
        calls += [Call("GET", proof, shown), Call("GET", proof, f"{shown}?verified=yes")]
        calls += [Call("GET", f"{proof}/certificate.json", f"{shown}/certificate.json")]
        calls += [Call("POST", f"{proof}/verify", f"{shown}/verify")]
        calls += [
            Call("POST", f"{proof}/nonce", f"{shown}/nonce", {"data": {"sample": name}})
            for name in (f"{IDS[ALPHA]}-1", f"{IDS[BETA]}-1", NEVER)
        ]
    calls += [Call("POST", "/pages/proof/check", "/pages/proof/check", {"data": {"pasted": "{}"}})]
    calls += [Call("POST", "/pages/proof/everything", "/pages/proof/everything")]
    for who in (*CONSUMERS, NEVER):
        where = f"/pages/rights/of?consumer={who}"
        calls += [Call("GET", "/pages/rights/of", where), Call("GET", "/pages/rights/of", f"{where}&reach=yes")]
        form = {"of": json.dumps(who)}
        calls += [
            Call("POST", f"/pages/rights/{end}", f"/pages/rights/{end}", {"data": form}) for end in ("of", "measure")
        ]
    form = {"of": json.dumps(consumer), "source": json.dumps(BETA)}
    calls += [
        Call("POST", f"/pages/rights/{act}", f"/pages/rights/{act}", {"data": form})
        for act in ("grant", "provision", "revoke")
    ]
    asked = {"of": '"shop-two"', "sample": json.dumps(f"{IDS[BETA]}-t0")}
    calls += [Call("POST", "/pages/rights/ask", "/pages/rights/ask", {"data": asked})]
    calls += [
        Call("POST", f"/pages/{end}", f"/pages/{end}", {"data": {"token": "sg.x.y"}}) for end in ("login", "logout")
    ]
    return calls


def page_routes() -> set[tuple[str, str]]:
    """Every (method, path) that the pages answer."""
    found = [route for router in (*ROUTERS, fallback) for route in router.routes if isinstance(route, APIRoute)]
    return {(method, route.path) for route in found for method in route.methods}


def whole(answer: httpx.Response) -> str:
    """All that an answer and the redirects before it say: status, headers and body."""
    said = [*answer.history, answer]
    return "\n".join(f"{one.status_code} {dict(one.headers)} {one.text}" for one in said)


def walk(service: RunningService, token: str | None, request: int) -> Iterator[tuple[Call, str]]:
    """Every route and every page, as this caller; each call with the whole answer."""
    state = service("GET", "/ready").json()["state"]
    for call in api_calls(state, request, "extra"):
        yield call, whole(service(call.method, call.path, token, **call.options))
    client = PageClient(service)
    client.log_in(token or "")
    client.get("/pages/nowhere")  # its form holds the token of this session's forms
    for call in page_calls(state, request, "extra"):
        send = client.get if call.method == "GET" else client.post
        yield call, whole(send(call.path, **call.options, follow_redirects=True))
    client.client.close()


def steady(text: str) -> str:
    """An answer without what differs from server to server: times, form tokens, hashes, addresses, ports."""
    rules = (
        (TIME, "TIME"),
        (r"\d{4}-\d\d-\d\d", "DAY"),
        (r'name="csrf" value="[^"]+"', "CSRF"),
        (r"of=[\w%=-]{40,}", "ENCRYPTED"),
        (r"[0-9a-f]{32,}", "HASH"),
        (r"shardgraph_session=[\w-]+", "SESSION"),
        (r"'(date|content-length)': '[^']*'", "HEADER"),
        (r"127\.0\.0\.1:\d+", "HOST"),
        (r'"seconds":[\d.]+', '"seconds":N'),
        (r"[\d.]+ seconds", "N seconds"),
    )
    for pattern, name in rules:
        text = re.sub(pattern, name, text)
    return text
