"""After the 202 of a request, no answer that ends uses what saw its data: predictions, measurements, every figure.

Twenty clients call every route and every page that shows something that a model made, while each of three requests
makes the service forget a whole class and a held-out sample. Every such figure differs between the model before the
first request and those after it, so an answer of a withdrawn model is found by its figure.
"""

import ast
import io
import json
import re
import shutil
import time
from pathlib import Path
from urllib.parse import urlencode

import anyio
import numpy as np
import pytest
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from shardgraph import service as service_package
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.auth.access import get_models
from shardgraph.service.auth.tokens import create_token
from shardgraph.service.middleware import ModelGate
from shardgraph.service.pages.router import ROUTERS
from shardgraph.service.routes import operation, proofs, requests, rights
from shardgraph.service.routes import predictions as predictions_routes
from shardgraph.service.runtime import runtime
from shardgraph.service.runtime.worker import ModelMeasurement
from shardgraph.storage.samples import Samples
from tests.service.conftest import running, wait_until
from tests.service.crowd import Call, Connection, Crowd, Ended, call_bytes, forget_bytes, wait_for
from tests.service.pages.conftest import PageClient
from tests.service.processes import Process
from tests.strategies import QUICK

CLASSES = [f"class-{i}" for i in range(6)]
DIM, TOKENS, EACH = 16, 2, 8
FORGOTTEN = (0, 2, 4)  # classes, in this order
NO_FIGURE = {"('–',)", "('not measured yet',)", "[]"}  # what is shown where nothing was measured yet
FIGURES_THAT_RETURN = {"metrics"}  # once the groups are rebuilt


def centres() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(len(CLASSES), DIM)) * 3


def samples(held_out: range, train: int = 2 * EACH) -> Samples:
    """Source k has samples of the classes k and k + 1; of every class, those with these numbers are held out."""
    rng, rows = np.random.default_rng(held_out.start), []
    for k in range(len(CLASSES)):
        rows += [(f"train-{k}-{i}", k, f"s{(k - i % 2) % len(CLASSES)}", "train") for i in range(train)]
        rows += [(f"test-{k}-{i}", k, "s0", "test") for i in held_out]
    classes = np.array([row[1] for row in rows])
    tokens = centres()[classes].repeat(TOKENS, axis=0) + rng.normal(size=(TOKENS * len(rows), DIM))
    return Samples(
        ids=tuple(row[0] for row in rows),
        labels=tuple(CLASSES[row[1]] for row in rows),
        tokens=tokens.astype(np.float16),
        offsets=np.arange(0, TOKENS * len(rows) + 1, TOKENS, dtype=np.int64),
        features=(centres()[classes] + rng.normal(size=(len(rows), DIM))).astype(np.float32),
        sources=tuple(row[2] for row in rows),
        subjects=("",) * len(rows),
        splits=tuple(row[3] for row in rows),
    )


def make(root: Path, held_out: int) -> dict[str, str]:
    """A workspace whose model was measured, with a consumer; the tokens by role."""
    with Workspace.create(root, seed=0, workers=1) as workspace:
        workspace.add(samples(range(held_out)))
        workspace.train(BySource(), QUICK)
        workspace.consumers.grant("shop", sources=[f"s{k}" for k in range(len(CLASSES) - 1)])
        ModelMeasurement(workspace).update()
        catalogue = workspace.context.catalogue
        return {role: create_token(catalogue, name, role) for role, name in (("operator", "op"), ("consumer", "shop"))}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("gate") / "ws"
    return root, make(root, held_out=100)


def forget_class(token: str, number: int) -> bytes:
    k = FORGOTTEN[number]
    return forget_bytes(token, samples=[*(f"train-{k}-{i}" for i in range(2 * EACH)), f"test-{k}-0"])


def found(pattern: str):
    """The groups of a pattern in an answer; a pattern that is not there gives None."""
    return lambda text: match.groups() if (match := re.search(pattern, text, re.DOTALL)) else None


def predictions(text: str) -> str:
    return json.dumps(json.loads(text)["predictions"])


def accuracies(text: str) -> list:
    """All accuracies that the ledger shows."""
    lines = json.loads(text)["lines"]
    return [line["detail"]["accuracy"] for line in lines if "accuracy" in line["detail"]]


def served(text: str) -> tuple:
    told = json.loads(text)
    return told["model_digest"], told["classes"], told["lambda"], told["groups"]["serving"]


CURRENT = r'Current accuracy</h2>\s*<p class="big">([^<]*)</p>'
ALONE = r'/p><p class="quiet">Prototypes alone answer, for'
SERVING = rf'class="big">([\d,]+)<(?:span class="of">.*groups,|{ALONE}) (\d+) classes'
MEASURED = r'id="accuracy">([^<]*)<.*complete model</span><strong>([^<]*)<.*held-out samples</span><strong>([^<]*)<'


def make_calls(me: PageClient, tokens: dict[str, str]) -> list[Call]:
    """Every route and page that shows what a model made; `test_every_route_with_a_lease_is_called` compares."""
    cookie = f"shardgraph_session={me.client.cookies['shardgraph_session']}"
    me.get("/pages/forget")
    sent = {"kind": "sample", "name": '"train-5-0"'}
    preview = me.post("/pages/forget/preview", sent).headers["location"]
    features = centres().tolist()
    file = io.BytesIO()
    np.savez(file, features=centres().astype(np.float32))

    def api(method: str, path: str, role: str = "operator", body: bytes = b"") -> bytes:
        return call_bytes(method, path, body, Authorization=f"Bearer {tokens[role]}", Content_Type="application/json")

    def page(path: str, form: dict[str, str] | None = None) -> bytes:
        body = urlencode({"csrf": me.csrf, **form}).encode() if form else b""
        kind = "application/x-www-form-urlencoded"
        return call_bytes("POST" if form else "GET", path, body, Cookie=cookie, Content_Type=kind)

    numbers = json.dumps({"features": features, "top": 1000}).encode()
    ask = {"of": '"shop"', "sample": '"test-0-1"'}
    return [
        Call("measure", page("/pages/rights/measure", {"of": '"shop"'}), found(MEASURED)),
        Call("predictions", api("POST", "/predictions", body=numbers), predictions),
        Call("consumer", api("POST", "/predictions", "consumer", body=numbers), predictions),
        Call("arrays", api("POST", "/predictions/arrays?top=1000", body=file.getvalue()), predictions),
        Call("ask", page("/pages/rights/ask", ask), found(r"<tbody>(.*?)</tbody>")),
        Call("overview", page("/pages"), found(CURRENT)),
        Call("overview of adapters", page("/pages"), found(SERVING)),
        Call("preview", page(preview), found(r"current accuracy</span><strong>([^<]*)<")),
        Call("metrics", api("GET", "/metrics"), found(r"\nshardgraph_adapters_served_ratio (\S+)")),
        Call("status", api("GET", "/status"), served),
        Call("ledger", api("GET", "/ledger?limit=1000"), accuracies),
    ]


def check(calls: list[Call], ended: list[Ended], *, carried_out: bool = False) -> dict[str, int]:
    """No answer has a figure of a model that was withdrawn before it ended; how many ended after a 202, begun before.

    Unless requests are carried out meanwhile, the figure of a model depends on the number of accepted requests alone.
    """
    assert {one.status for one in ended} <= {200, 503}
    overtaken = {}
    for call in calls:
        answers = [one for one in ended if one.call == call.name and one.status == 200]
        figures = {id(one): repr(call.figure(one.body)) for one in answers}
        assert "None" not in set(figures.values()), (call.name, "an answer without its figure")
        clean = {n: {figures[id(one)] for one in answers if one.settled and one.begun == n} for n in range(4)}
        if carried_out and call.name in FIGURES_THAT_RETURN:
            continue
        assert not clean[0] & set().union(*(clean[n] for n in (1, 2, 3))), f"{call.name}: {clean} shows no difference"
        for one in answers:
            withdrawn = set().union(*(clean[n] for n in range(one.ended))) - NO_FIGURE
            assert figures[id(one)] not in withdrawn, f"{call.name}: {figures[id(one)]} after request {one.ended}"
        overtaken[call.name] = sum(one.begun < one.ended for one in answers)
    return overtaken


@pytest.fixture
def gate(small, fast_path):
    """A running service over a copy of the workspace, its port, the calls and the operator's token."""
    with running(Path(shutil.copytree(small[0], fast_path / "ws"))) as service:
        me = PageClient(service)
        me.log_in(small[1]["operator"])
        calls = {call.name: call for call in make_calls(me, small[1])}
        yield service, int(service.base.rpartition(":")[2]), calls, small[1]["operator"]
        me.client.close()


def test_no_answer_after_the_202_used_what_saw_the_data(gate):
    _, port, calls, token = gate
    ended = Crowd(port, [*calls.values()]).run([forget_class(token, n) for n in range(3)])
    check([*calls.values()], ended)


def test_a_measurement_that_a_request_overtakes_is_made_anew(gate):
    """It takes longer than the acceptance of a request, so that one is always being computed when a request comes."""
    service, port, calls, token = gate
    with Workspace(service.root, workers=1) as workspace:
        workspace.add(samples(range(100, 500), train=0))
        workspace.train()
    ended = Crowd(port, [calls["measure"]], size=2).run([forget_class(token, 0)], settle=1)
    assert check([calls["measure"]], ended)["measure"] > 0


def test_a_prediction_on_a_page_that_a_request_overtakes_is_made_anew(gate):
    _, port, calls, token = gate
    ended = Crowd(port, [calls["ask"]], size=3).run([forget_class(token, n) for n in range(3)], settle=0.05)
    assert check([calls["ask"]], ended)["ask"] > 0


def test_an_answer_that_takes_too_long_does_not_delay_a_request_and_is_made_anew(gate, monkeypatch):
    service, port, calls, token = gate
    monkeypatch.setattr(runtime, "PATIENCE", 0.3)
    before, slow = Connection(port), Connection(port)
    before.send(calls["consumer"].raw)
    old = predictions(wait_for(before)[1])
    with service.runtime._consumers_lock:  # the model of the consumer's right cannot be had
        slow.send(calls["consumer"].raw)
        wait_until(lambda: service.runtime.served._leases)
        asker = Connection(port)
        asker.send(forget_class(token, 0))
        assert wait_for(asker)[0] == 202
        assert slow.receive() is None
    status, text = wait_for(slow)
    assert status == 200 and CLASSES[0] in old and CLASSES[0] not in predictions(text)


def test_an_answer_that_nobody_reads_is_cut_off(gate, monkeypatch):
    service, port, _, token = gate
    monkeypatch.setattr(runtime, "PATIENCE", 0.3)
    file, calls = io.BytesIO(), 12  # their answers are more than the kernel takes
    np.savez_compressed(file, features=np.repeat(centres(), 680, axis=0).astype(np.float32))
    reader, asker = Connection(port, receive_buffer=4096), Connection(port)
    path, known = "/predictions/arrays?top=1000", f"Bearer {token}"
    reader.send(calls * call_bytes("POST", path, file.getvalue(), Authorization=known))
    wait_until(lambda: stuck(service), seconds=60)
    asker.send(forget_class(token, 0))
    assert wait_for(asker)[0] == 202
    assert not service.runtime.served._leases
    with pytest.raises(ConnectionError):  # an answer ends before it is complete
        for _ in range(calls):
            wait_for(reader)


def stuck(service) -> bool:
    """Whether an answer is being sent, and is still being sent a moment later."""
    sending = [lease for lease in service.runtime.served._leases if lease.cut]
    time.sleep(0.2)
    return any(lease in service.runtime.served._leases for lease in sending)


def test_an_answer_whose_lease_was_revoked_is_refused(monkeypatch):
    """The gate itself: a lease is revoked between the computation of an answer and its sending."""
    monkeypatch.setattr(runtime, "PATIENCE", 0.05)
    slot, sent = runtime.ModelSlot(), []

    async def app(scope, receive, send):
        scope[runtime.LEASES].append(slot.take())
        slot.replace(runtime.ModelState(id="new"))
        await JSONResponse("made by the old model")(scope, receive, send)

    async def send(message):
        sent.append(message)

    anyio.run(ModelGate(app), {"type": "http", "path": "/predictions"}, None, send)
    assert sent[0]["status"] == 503 and (b"retry-after", b"1") in sent[0]["headers"]
    assert b"old model" not in sent[1]["body"] and b"replaced" in sent[1]["body"]
    assert not slot._leases


def test_a_replacement_waits_for_leases_even_if_the_model_is_the_same(gate):
    """A request for a held-out sample changes no model; an accuracy that counted the sample ends before the 202."""
    service, port, _, token = gate
    state = service.runtime.served.current
    asker = Connection(port)
    with service.runtime.served.lease() as lease:
        asker.send(forget_bytes(token, samples=["test-1-1"]))
        wait_until(lambda: lease.superseded)
        assert asker.receive() is None
    assert wait_for(asker)[0] == 202
    assert service.runtime.served.current.id == state.id and service.runtime.served.current is not state


# Nothing can be left out


def uses_models(dependant) -> bool:
    return dependant.call is get_models or any(uses_models(one) for one in dependant.dependencies)


def test_every_route_with_a_lease_is_called(gate):
    called = {call.raw.split(b" ")[1].decode().partition("?")[0] for call in gate[2].values()}
    routers = [*ROUTERS, *(module.router for module in (requests, predictions_routes, rights, proofs, operation))]
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    leased = {route.path for route in routes if uses_models(route.dependant)}
    same_code = {"/predictions/images", "/predictions/texts"}  # as /predictions; they need a backbone
    assert leased == called | same_code


@pytest.mark.parametrize("folder", ["routes", "pages"])
def test_routes_and_pages_reach_models_only_through_models(folder):
    """They import no workspace, and use no attribute of the runtime that leads to a model."""
    hidden = {"served", "consumer_model", "accuracy", "exclusive_workspace", "status", "events"}
    for path in sorted((Path(service_package.__file__).parent / folder).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not names & {"Workspace", "measurements", "evaluate_model", "ModelState", "ModelSlot"}, path.name
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in hidden:
                assert "runtime" not in ast.unparse(node.value), f"{path.name}: {ast.unparse(node)}"


@pytest.mark.slow
def test_no_answer_of_a_real_service_after_the_202_used_what_saw_the_data(fast_path):
    """`shardgraph serve`, whose worker carries the requests out and measures the models meanwhile."""
    tokens = make(fast_path / "ws", held_out=400)
    with Process(fast_path / "ws") as process:
        process.until_ready()
        process.base = f"http://127.0.0.1:{process.port}"
        me = PageClient(process)
        me.log_in(tokens["operator"])
        calls, wanted = make_calls(me, tokens), [forget_class(tokens["operator"], n) for n in range(3)]
        ended = Crowd(process.port, calls).run(wanted, settle=5, seconds=600)
        me.client.close()
    overtaken = check(calls, ended, carried_out=True)
    assert overtaken["measure"] and overtaken["predictions"], overtaken
