"""Every endpoint, with every role and with none: who may is written here once, and nothing else gets in."""

import time

import pytest

from shardgraph.errors import VerificationError
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Complete
from shardgraph.service.auth.tokens import ROLES, create_token, revoke_token
from tests.service.conftest import create_tokens, running
from tests.strategies import BY_SOURCE, LABELS, QUICK, RING, ROWS, embed

OPEN = {"owner", "operator", "consumer", "auditor", "none"}
ASKERS, READERS = {"owner", "operator"}, {"owner", "operator", "auditor"}
PREDICTORS, INSPECTORS = {"operator", "consumer"}, {"operator", "auditor"}
MINE = {"samples": [BY_SOURCE["ann"][0].id]}

TABLE = [  # method, path as in the document, who may, how to call it
    ("POST", "/requests/preview", ASKERS, {"json": MINE}),
    ("POST", "/requests", ASKERS, {"json": MINE}),
    ("GET", "/requests", READERS, {}),
    ("GET", "/requests/{number}", READERS, {}),
    ("POST", "/requests/{number}/cancel", ASKERS, {}),
    ("POST", "/requests/{number}/retry", {"operator"}, {}),
    ("GET", "/requests/{number}/certificate", READERS, {}),
    ("POST", "/requests/{number}/nonces", ASKERS, {"json": MINE}),
    ("GET", "/requests/{number}/events", READERS, {}),
    ("POST", "/predictions", PREDICTORS, {"json": {"features": [[0.5] * 8]}}),
    ("POST", "/predictions/arrays", PREDICTORS, {"content": b"no arrays"}),
    ("POST", "/predictions/images", PREDICTORS, {"files": {"files": b"no image"}}),
    ("POST", "/predictions/texts", PREDICTORS, {"json": {"texts": ["a text"]}}),
    ("GET", "/rights", INSPECTORS, {}),
    ("POST", "/rights/{consumer}/grant", {"operator"}, {"json": {"sources": ["bob"]}}),
    ("POST", "/rights/{consumer}/revoke", {"operator"}, {"json": {"sources": ["bob"]}}),
    ("POST", "/rights/{consumer}/provision", {"operator"}, {}),
    ("GET", "/public-key", OPEN, {}),
    ("GET", "/certificates/{number}", INSPECTORS, {}),
    ("GET", "/ledger", INSPECTORS, {}),
    ("GET", "/states/{state}", {"operator", "auditor", "consumer"}, {}),
    ("GET", "/status", INSPECTORS, {}),
    ("GET", "/health", OPEN, {}),
    ("GET", "/ready", OPEN, {}),
    ("GET", "/metrics", INSPECTORS, {}),
]


@pytest.fixture(scope="module")
def guarded(module_root):
    """A service with tokens; the owner of ann has one request, cancelled, which no call below can change."""
    tokens = create_tokens(module_root)
    with running(module_root) as service:
        assert service("POST", "/requests", tokens["owner"], json=MINE).status_code == 202
        assert service("POST", "/requests/1/cancel", tokens["owner"]).status_code == 200
        yield service, tokens


def test_the_table_has_every_endpoint(guarded):
    service, _ = guarded
    described = service("GET", "/openapi.json").json()["paths"]
    assert {(m.upper(), p) for p, ms in described.items() for m in ms} == {(m, p) for m, p, _, _ in TABLE}


@pytest.mark.parametrize("role", [*ROLES, "none", "invalid"])
@pytest.mark.parametrize(("method", "path", "allowed", "call"), TABLE, ids=[f"{m} {p}" for m, p, _, _ in TABLE])
def test_who_may(guarded, method, path, allowed, call, role):
    service, tokens = guarded
    token = {**tokens, "none": None, "invalid": tokens["operator"][:-1] + "?"}[role]
    where = path.format(number=1, state="0" * 32, consumer="shop") if path != "/requests" or method == "GET" else path
    answer = service(method, where, token, **call)
    if "none" in allowed or role in allowed:
        assert answer.status_code not in (401, 403) and answer.status_code < 500, answer.text
    else:
        assert answer.status_code == (401 if role in ("none", "invalid") else 403)
        assert set(answer.json()) == {"error", "kind"}


def test_an_owner_sees_and_asks_for_its_own_alone(root, tokens):
    with running(root) as service:
        theirs = BY_SOURCE["bob"][0].id
        for what in ({"samples": [theirs]}, {"labels": ["eel"]}, {"sources": ["bob"]}, {"samples": ["nobody"]}):
            assert service("POST", "/requests", tokens["owner"], json=what).status_code == 404
            assert service("POST", "/requests/preview", tokens["owner"], json=what).status_code == 404
        assert service("POST", "/requests", tokens["operator"], json={"samples": [theirs]}).status_code == 202
        assert service("GET", "/requests/1", tokens["owner"]).status_code == 404
        assert service("GET", "/requests", tokens["owner"]).json()["requests"] == []
        assert service("POST", "/requests/1/cancel", tokens["owner"]).status_code == 404
        service.work()
        again = service("POST", "/requests", tokens["owner"], json={"samples": [theirs]})
        assert again.status_code == 404, "nor does it learn what was forgotten"
        assert service("POST", "/requests", tokens["owner"], json={"sources": ["ann"]}).status_code == 202
        assert [one["number"] for one in service("GET", "/requests", tokens["owner"]).json()["requests"]] == [2]
        service.work()
        assert service("GET", "/requests/2/certificate", tokens["owner"]).status_code == 200
        mine = service("POST", "/requests", tokens["owner"], json={"sources": ["ann"]}).json()
        assert (mine["state"], mine["certificate"]) == ("done", 2)


def test_an_owner_cannot_tell_what_others_have_from_what_was_never_here(root, tokens):
    gone, there = BY_SOURCE["bob"][:2]
    asked = [
        {"samples": ["never here"]},
        {"samples": [gone.id]},
        {"samples": [there.id]},
        {"samples": [BY_SOURCE["ann"][0].id, "never here"]},
        {"samples": [BY_SOURCE["ann"][0].id, gone.id]},
        *({kind: [name]} for kind in ("labels", "subjects", "sources", "shards") for name in ("never here", "bob")),
    ]
    with running(root) as service:
        assert service("POST", "/requests", tokens["operator"], json={"samples": [gone.id]}).status_code == 202
        while_it_waits = [service("POST", "/requests/preview", tokens["owner"], json=what) for what in asked]
        service.work()
        later = [
            service("POST", path, tokens["owner"], json=w) for path in ("/requests", "/requests/preview") for w in asked
        ]
        answers = {(one.status_code, one.text) for one in while_it_waits + later}
    assert len(answers) == 1 and answers.pop()[0] == 404


def test_why_a_request_waits_is_not_told_to_its_owner(fast_path):
    root = fast_path / "ws"
    with Workspace.create(root, seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(RING, QUICK)  # ann's group learns from bob, too
        owner = create_token(workspace.context.catalogue, "ann", "owner", ("ann",))
        operator = create_token(workspace.context.catalogue, "op", "operator")
        path = workspace.context.store.path("shard:bob")
    with running(root) as service:
        key = {"Idempotency-Key": "a key"}
        assert service("POST", "/requests", owner, json=MINE, headers=key).status_code == 202
        path.write_bytes(path.read_bytes()[:-1])
        service.work()
        said = service("GET", "/requests/1", operator).json()
        assert said["state"] == "instant" and "shardgraph verify" in said["failure"] and "bob" not in said["failure"]
        answers = [
            service("GET", "/requests/1", owner),
            service("GET", "/requests", owner),
            service("POST", "/requests", owner, json=MINE, headers=key),
        ]
        for answer in answers:
            assert "the erasure waits" in answer.text and "bob" not in answer.text and "shards" not in answer.text


def test_why_a_request_failed_is_not_told_to_its_owner_and_what_is_told_is_true(root, tokens):
    with running(root) as service:
        assert service("POST", "/requests", tokens["owner"], json=MINE).status_code == 202
        path, context = root / "prototypes.safetensors", service.worker._workspace.context

        def spoil(what, done, of):  # what the erasure has just written
            if (what, done) == ("training", 1):
                path.write_bytes(path.read_bytes()[:-1])

        context.progress = spoil
        with pytest.raises(VerificationError):
            service.work()
        said = service("GET", "/requests/1", tokens["operator"]).json()
        assert said["state"] == "failed" and "erased, but not verified" in said["failure"]
        assert "shardgraph verify" in service("GET", "/requests/1/events", tokens["operator"]).text
        for address in ("/requests/1", "/requests", "/requests/1/events"):
            text = service("GET", address, tokens["owner"]).text
            assert "what the request names is erased, but a check afterwards failed" in text
            assert "ask the operator" in text and "shardgraph" not in text and "prototypes" not in text


def test_which_file_is_damaged_is_not_told_to_an_owner(root, tokens):
    with running(root) as service:
        path = root / "manifest.json"
        path.write_bytes(path.read_bytes()[:-10])
        said = {role: service("POST", "/requests", tokens[role], json=MINE) for role in ("owner", "operator")}
    assert {one.status_code for one in said.values()} == {409}
    assert "torn" in said["operator"].text and str(root) in said["operator"].text
    assert "tell the operator" in said["owner"].text and str(root) not in said["owner"].text


def test_a_revoked_token_is_worthless_at_once(root, tokens):
    with running(root) as service:
        assert service("GET", "/status", tokens["auditor"]).status_code == 200
        with Workspace(root) as workspace:
            revoke_token(workspace.context.catalogue, "the-auditor")
        assert service("GET", "/status", tokens["auditor"]).status_code == 401


def test_a_consumer_predicts_under_its_right_and_a_revocation_acts_on_the_next_prediction(root, tokens):
    query = {"json": {"features": [[0.5] * 8], "top": 4}}
    with running(root) as service:
        predict = lambda role: service("POST", "/predictions", tokens[role], **query)  # noqa: E731
        assert predict("consumer").status_code == 404, "no right yet"
        granted = service("POST", "/rights/the-consumer/grant", tokens["operator"], json={"sources": ["ann", "bob"]})
        assert granted.json()["sources"] == ["ann", "bob"]
        both, whole = predict("consumer").json()["predictions"], predict("operator").json()["predictions"]
        assert both != whole
        service("POST", "/rights/the-consumer/revoke", tokens["operator"], json={"sources": ["bob"]})
        one = predict("consumer").json()["predictions"]
        assert one != both
        assert service("POST", "/requests", tokens["owner"], json=MINE).status_code == 202
        assert predict("consumer").json()["predictions"] != one, "what waits to be forgotten is out of it, too"
        with service.runtime._consumers_lock:  # which predictions of consumers wait for
            assert service("POST", "/rights/the-consumer/provision", tokens["operator"]).status_code == 200


def test_an_owner_learns_nothing_of_others_in_the_same_certificate(fast_path):
    mine, theirs, subject = BY_SOURCE["ann"][0], BY_SOURCE["bob"][0], next(r for r in BY_SOURCE["bob"] if r.subject)
    root = fast_path / "ws"
    with Workspace.create(root, seed=0, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(Complete(2), QUICK)  # everything is seen by every group: requests go together
        tokens = {"owner": create_token(workspace.context.catalogue, "ann", "owner", ("ann",))}
        tokens["operator"] = create_token(workspace.context.catalogue, "op", "operator")
        bob = create_token(workspace.context.catalogue, "bob", "owner", ("bob",))
    with running(root) as service:
        assert service("POST", "/requests", tokens["owner"], json={"samples": [mine.id]}).status_code == 202
        assert service("POST", "/requests", bob, json={"samples": [theirs.id, subject.id]}).status_code == 202
        assert service.work() == [1, 2], "one certificate"
        ann = lambda number, name: service(  # noqa: E731
            "POST", f"/requests/{number}/nonces", tokens["owner"], json={"samples": [name]}
        )
        assert ann(1, mine.id).status_code == 200
        assert ann(1, theirs.id).status_code == 404 == ann(1, "never here").status_code
        assert service("POST", "/requests/2/nonces", bob, json={"samples": [theirs.id]}).status_code == 200
        for what in ({"samples": [theirs.id]}, {"subjects": [subject.subject]}, {"samples": [mine.id, theirs.id]}):
            for path in ("/requests", "/requests/preview"):
                assert service("POST", path, tokens["owner"], json=what).status_code == 404, what
        again = service("POST", "/requests", tokens["owner"], json={"samples": [mine.id]}).json()
        assert (again["state"], again["certificate"]) == ("done", 1)
        both = {"samples": [mine.id, theirs.id]}
        assert service("POST", "/requests/1/nonces", tokens["operator"], json=both).status_code == 200


def test_the_seed_is_the_operators(root, tokens):
    with running(root) as service:
        assert "seed" in service("GET", "/status", tokens["operator"]).json()
        assert "seed" not in service("GET", "/status", tokens["auditor"]).json()


def test_a_consumers_model_in_memory_forgets_and_ends_without_being_asked_again(root, tokens):
    with running(root) as service:
        service("POST", "/rights/the-consumer/grant", tokens["operator"], json={"sources": ["ann", "bob"]})
        asked = service("POST", "/predictions", tokens["consumer"], json={"features": [[0.5] * 8]})
        assert asked.status_code == 200
        held = service.runtime._consumers.consumers._models
        first = held["the-consumer"]

        def known():
            model = held.get("the-consumer")  # one that cannot be made anew just now is dropped
            return {name for part in model.sums.parts.values() for name in part.prints} if model else set()

        assert MINE["samples"][0] in known()
        service("POST", "/requests", tokens["owner"], json=MINE)
        service.work()
        deadline = time.monotonic() + 10
        while MINE["samples"][0] in known() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert MINE["samples"][0] not in known() and held.get("the-consumer") is not first
        with Workspace(root) as workspace:
            workspace.consumers.revoke("the-consumer")
        while held and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not held
