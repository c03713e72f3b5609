"""Forget requests over HTTP: accepted when it is true, followed to the end, taken back while that is possible."""

import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta

import pytest

from shardgraph.forget.build.wanted import group_path
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.proof.certificate import Certificate, check_certificate, opens
from shardgraph.forget.queue.queue import Submission, next_batch
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.auth.tokens import create_token
from shardgraph.service.runtime import supervisor
from tests.service.conftest import running
from tests.strategies import BY_SOURCE, CLIQUE, LABELS, LINEAR, QUICK, ROWS, TERMS, embed, never_saw, promised_files

QUERY = {"features": [[0.5] * 8], "top": 4}


def ask(service, *ids, **more):
    return service("POST", "/requests", json={"samples": list(ids), **more})


def state_of(service):
    return service("POST", "/predictions", json=QUERY).json()["state"]


def lines(service):
    return service("GET", "/ledger", params={"limit": 1000}).json()["lines"]


def test_a_request_from_preview_to_certificate(service, fast_path):
    sample = BY_SOURCE["ann"][0].id
    plan = service("POST", "/requests/preview", json={"samples": [sample]}).json()
    assert (plan["samples"], plan["groups_to_rebuild"], plan["seconds"], plan["privacy"]) == (1, 1, None, None)
    answer = ask(service, sample, reason="consent withdrawn")
    assert answer.status_code == 202
    ticket = answer.json()
    assert (ticket["number"], ticket["state"], ticket["samples"], ticket["certificate"]) == (1, "instant", 1, None)
    assert service("GET", "/requests/1/certificate").status_code == 409
    assert service.work() == [1]
    ticket = service("GET", "/requests/1").json()
    states = ["received", "instant", "erasing", "retraining", "verified", "done"]
    assert [move["state"] for move in ticket["history"]] == states
    assert sorted(move["time"] for move in ticket["history"]) == [move["time"] for move in ticket["history"]]
    answer = service("GET", "/requests/1/certificate")
    path = fast_path / "certificate.json"
    path.write_bytes(answer.content)
    certificate = Certificate.load(path)
    check_certificate(certificate, service("GET", "/public-key").json()["public_key"])
    nonce = service("POST", "/requests/1/nonces", json={"samples": [sample]}).json()["nonces"][sample]
    assert opens(certificate, sample, nonce)
    assert service("GET", "/certificates/1").json() == answer.json()
    assert service("POST", "/requests/1/nonces", json={"samples": [ROWS[20].id]}).status_code == 404
    assert service("POST", "/requests/preview", json={"samples": [ROWS[9].id]}).json()["seconds"] > 0
    with Workspace(service.root) as workspace:
        never = never_saw(workspace, [row for row in ROWS if row.id != sample], fast_path / "never")
    assert promised_files(service.root) == never


def test_when_it_is_accepted_nothing_that_saw_the_data_is_served(service):
    before = state_of(service)
    model = service.runtime.served.current.model
    ask(service, *(row.id for row in BY_SOURCE["ann"]))
    held = service.runtime.served.current
    assert state_of(service) == held.id != before
    assert len(held.model.average) < len(model.average)
    told = {line["detail"]["state"]: line for line in lines(service) if line["event"] == "serving"}
    instant = next(line for line in lines(service) if line["event"] == "instant")
    assert told[held.id]["detail"]["withheld"] == [1] and instant["detail"] == {"entry": 1, "state": held.id}
    assert told[before]["number"] < told[held.id]["number"] < instant["number"]
    found = service("GET", f"/states/{held.id}").json()
    assert (found["number"], found["withheld"]) == (told[held.id]["number"], [1])
    assert service("GET", f"/states/{'0' * 32}").status_code == 404


def test_a_class_that_only_the_data_had_is_not_named_any_more(service):
    named = {one["label"] for one in service("POST", "/predictions", json=QUERY).json()["predictions"][0]["top"]}
    assert "bee" in named
    service("POST", "/requests", json={"labels": ["bee"]})
    named = {one["label"] for one in service("POST", "/predictions", json=QUERY).json()["predictions"][0]["top"]}
    assert "bee" not in named and len(named) == 3


def test_a_cancelled_request_gives_the_adapters_back(service):
    answer = service("POST", "/predictions", json=QUERY).json()
    ask(service, ROWS[0].id)
    held = service("POST", "/predictions", json=QUERY).json()
    assert held["predictions"] != answer["predictions"]
    assert service("POST", "/requests/1/cancel").json()["state"] == "cancelled"
    again = service("POST", "/predictions", json=QUERY).json()
    assert again["predictions"] == answer["predictions"] and again["state"] not in (answer["state"], held["state"])
    assert service.work() == []
    assert service("POST", "/requests/1/cancel").status_code == 409
    assert service("POST", "/requests/99/cancel").status_code == 404


def test_the_same_key_gives_the_same_request(service):
    headers = {"Idempotency-Key": "a key"}
    first = service("POST", "/requests", json={"samples": [ROWS[0].id]}, headers=headers)
    assert first.status_code == 202
    service.work()
    again = service("POST", "/requests", json={"samples": [ROWS[0].id]}, headers=headers)
    assert again.status_code == 202 and again.json()["number"] == 1 and again.json()["state"] == "done"
    other = service("POST", "/requests", json={"samples": [ROWS[1].id]}, headers=headers)
    assert other.status_code == 409
    assert len(service("GET", "/requests").json()["requests"]) == 1


def test_another_request_under_a_key_is_answered_alike_however_early_it_comes(service):
    sent = [{"json": {"samples": [row.id]}, "headers": {"Idempotency-Key": "a key"}} for row in ROWS[:2]]
    with ThreadPoolExecutor(2) as pool:
        with service.runtime._intake_lock:  # both have been looked for, and neither is entered
            calls = [pool.submit(service, "POST", "/requests", **one) for one in sent]
            assert not wait(calls, timeout=1).done
        answers = {call.result().status_code: call.result().json() for call in calls}
    assert sorted(answers) == [202, 409]
    late = [service("POST", "/requests", **one) for one in sent]
    assert {one.status_code: one.json() for one in late}[409] == answers[409]


def test_a_deadline_that_is_past_is_refused_unless_the_request_came_before(service):
    past = {"samples": [ROWS[0].id], "deadline": "2001-01-01T00:00:00Z"}
    answer = service("POST", "/requests", json=past)
    assert answer.status_code == 422 and "must lie ahead" in answer.json()["error"]
    soon = {"samples": [ROWS[0].id], "deadline": (datetime.now(UTC) + timedelta(seconds=2)).isoformat()}
    key = {"Idempotency-Key": "a key"}
    assert service("POST", "/requests", json=soon, headers=key).status_code == 202
    time.sleep(2)
    assert service("POST", "/requests", json=soon, headers=key).status_code == 202
    assert service("POST", "/requests", json=soon).status_code == 422


def test_a_preview_says_what_private_edges_spend(fast_path):
    with Workspace.create(fast_path / "ws", seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(CLIQUE, LINEAR, privacy=TERMS)
        wanted = workspace.plan(ForgetRequest(samples=(ROWS[0].id,))).to_json()["privacy"]
    with running(fast_path / "ws") as service:
        found = service("POST", "/requests/preview", json={"samples": [ROWS[0].id]}).json()["privacy"]
    assert found == wanted and found["groups_charged"] == 2 and found["after"]["removed"] == 1


def test_lists_have_filters_and_pages(service):
    for row in ROWS[:5]:
        ask(service, row.id)
    service("POST", "/requests/2/cancel")
    first = service("GET", "/requests", params={"limit": 2}).json()
    assert [one["number"] for one in first["requests"]] == [1, 2] and first["next"] == 2
    rest = service("GET", "/requests", params={"limit": 3, "after": first["next"]}).json()
    assert [one["number"] for one in rest["requests"]] == [3, 4, 5] and rest["next"] is None
    chosen = service("GET", "/requests", params={"state": ["cancelled"]}).json()["requests"]
    assert [one["number"] for one in chosen] == [2]
    assert service("GET", "/requests", params={"asker": "nobody"}).json()["requests"] == []


def test_deadlines_go_first_and_requests_for_the_same_groups_go_together(service):
    ask(service, BY_SOURCE["ann"][0].id)
    ask(service, BY_SOURCE["bob"][0].id, deadline=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    ask(service, BY_SOURCE["ann"][1].id)
    assert service.work() == [2]
    assert service.work() == [1, 3]
    numbers = [service("GET", f"/requests/{n}").json()["certificate"] for n in (1, 2, 3)]
    assert numbers == [2, 1, 2]


def test_twins_are_named_and_come_along_when_they_are_asked_for(service):
    plan = service("POST", "/requests/preview", json={"samples": [ROWS[0].id], "twins": True}).json()
    assert plan["samples"] == 1 and plan["twins"] == []


def test_events_tell_every_state_and_end(service):
    ask(service, ROWS[0].id)
    service.work()
    text = service("GET", "/requests/1/events").text
    told = [dict(line.split(": ", 1) for line in part.split("\n")) for part in text.strip().split("\n\n")]
    assert [one["event"] for one in told] == ["received", "instant", "erasing", "retraining", "verified", "done"]
    assert json.loads(told[-1]["data"])["certificate"] == 1 and "certificate" not in json.loads(told[0]["data"])
    rest = service("GET", "/requests/1/events", headers={"Last-Event-ID": "5"}).text
    assert rest.count("event:") == 1


def test_what_cannot_be_done_says_so(service):
    assert ask(service, "nobody").status_code == 404
    assert ask(service).status_code == 422
    assert service("POST", "/requests", content=b"{").status_code == 422
    assert service("POST", "/requests", content=b'{"samples": ["\\ud800"]}').status_code == 422
    assert service("GET", "/requests/0").status_code == 422
    assert service("POST", "/requests/1/retry").status_code == 404
    assert service("GET", "/nowhere").json()["kind"] == "HTTPException"


def test_a_service_that_starts_anew_withholds_what_waits(root):
    with running(root) as service:
        ask(service, ROWS[0].id)
        held = service.runtime.served.current.model.digest
    with running(root) as service:
        assert service.runtime.served.current.model.digest == held
        assert service.work() == [1]
        assert service("GET", "/requests/1").json()["state"] == "done"


def test_a_request_for_a_damaged_file_is_accepted_and_waits(service, fast_path):
    with Workspace(service.root) as workspace:
        path = workspace.context.store.path("shard:ann")
    raw, sample = path.read_bytes(), BY_SOURCE["ann"][0].id
    whole = service.runtime.served.current.model
    path.write_bytes(raw[:-1])
    answer = ask(service, sample)
    assert (answer.status_code, answer.json()["state"]) == (202, "instant")
    held = service.runtime.served.current
    assert state_of(service) == held.id and 0 < len(held.model.average) < len(whole.average)
    with Workspace.create(fast_path / "without", seed=0, classes=LABELS, workers=1) as without:
        without.add(embed([row for row in ROWS if row.source != "ann" and row.split == "train"]))
        without.train(BySource(), QUICK)
        assert without.model().digest == held.model.digest, "nothing of the damaged file is served"
    assert service.work() == []
    ticket = service("GET", "/requests/1").json()
    assert ticket["state"] == "instant" and "restore it from a backup" in ticket["failure"]
    ready = service("GET", "/ready")
    assert ready.status_code == 503 and "a file of samples is damaged" in ready.json()["reason"]
    path.write_bytes(raw)
    assert service.work() == [1]
    assert service("GET", "/requests/1").json()["failure"] == ""
    assert service("POST", "/requests/1/retry").status_code == 409
    assert service("GET", "/ready").status_code == 200
    with Workspace(service.root) as workspace:
        never = never_saw(workspace, [row for row in ROWS if row.id != sample], fast_path / "never")
    assert promised_files(service.root) == never


def test_an_owner_reads_what_is_true_and_no_path(service):
    with Workspace(service.root) as workspace:
        path = workspace.context.store.path("shard:ann")
        owner = create_token(workspace.context.catalogue, "ann", "owner", ["ann"])
    path.write_bytes(path.read_bytes()[:-1])
    answer = service("POST", "/requests", owner, json={"samples": [BY_SOURCE["ann"][0].id]})
    assert answer.status_code == 202
    service.work()
    said = service("GET", "/requests/1", owner).json()
    assert said["state"] == "instant" and "accepted" in said["failure"] and "the erasure waits" in said["failure"]
    assert "/" not in said["failure"] and "shard" not in said["failure"]


def test_a_damaged_adapter_fails_nothing_that_does_not_need_it(root, monkeypatch):
    monkeypatch.setattr(supervisor, "DAMAGE_CHECK", 0.1)
    path = group_path(root, "bob")
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    with running(root) as service:
        whole = service.runtime.served.current.model.digest
        path.write_bytes(raw)
        ready = until(service, 503)
        assert "`shardgraph repair`" in ready["reason"] and not ready["ready"]
        assert ask(service, BY_SOURCE["ann"][0].id).status_code == 202
        assert service.work() == [1]
        assert service("GET", "/requests/1").json()["state"] == "done"
        assert service("GET", "/status").json()["damaged"] == 1
    with running(root, "/health") as service:  # which has no model in memory
        until(service, 200, "/predictions")
        assert "`shardgraph repair`" in service("GET", "/ready").json()["reason"]
        assert ask(service, BY_SOURCE["web"][0].id).status_code == 202
        assert service.work() == [2]
        left_out = service.runtime.served.current.model
        with Workspace(root, workers=1) as workspace:
            assert workspace.repair().event == "repair"
            mended = workspace.model()
        assert until(service, 200)["ready"]
        assert service.runtime.served.current.model.digest == mended.digest
        assert len(left_out.average) < len(mended.average) and mended.digest != whole


def test_a_service_that_starts_with_damaged_prototypes_sums_them_again(root):
    path = root / "prototypes.safetensors"
    with Workspace(root) as workspace:
        whole = workspace.model().digest
    raw = path.read_bytes()
    path.write_bytes(raw[:-1])
    with running(root, "/health") as service:
        until(service, 200, "/predictions")
        assert service.runtime.served.current.model.digest == whole
        assert "`shardgraph repair`" in service("GET", "/ready").json()["reason"]
        assert ask(service, ROWS[0].id).status_code == 202 and service.work() == [1]
        assert until(service, 200)["ready"], "the erasure has summed them again, too"


def until(service, code, path="/ready"):
    """The answer, once it has this code."""
    end = time.monotonic() + 30
    while True:
        sent = {"json": QUERY} if path == "/predictions" else {}
        answer = service("POST" if sent else "GET", path, **sent)
        if answer.status_code == code:
            return answer.json()
        assert time.monotonic() < end, answer.text
        time.sleep(0.05)


@pytest.mark.parametrize("what", [{"sources": ["ann"]}, {"subjects": ["p1"]}, {"labels": ["ant"]}, {"shards": ["web"]}])
def test_every_way_to_name_data(service, what):
    assert service("POST", "/requests", json=what).status_code == 202
    assert service.work() == [1]
    again = service("POST", "/requests", json=what).json()
    assert (again["state"], again["certificate"]) == ("done", 1)


def test_the_same_key_is_answered_when_it_is_true_and_not_before(service):
    """A prediction that began with the old model holds the swap up; the same request again waits for it, too."""
    sent = {"json": {"samples": [ROWS[0].id]}, "headers": {"Idempotency-Key": "a key"}}
    with ThreadPoolExecutor(2) as pool:
        with service.runtime.served.lease():
            calls = [pool.submit(service, "POST", "/requests", **sent)]
            while not service("GET", "/requests").json()["requests"]:
                time.sleep(0.01)
            calls.append(pool.submit(service, "POST", "/requests", **sent))
            assert not wait(calls, timeout=0.5).done, "the old model is still in use"
        answers = [call.result().json() for call in calls]
    assert [(one["number"], one["state"]) for one in answers] == [(1, "instant")] * 2


def test_a_key_whose_request_was_not_accepted_may_come_again(service):
    sent = {"json": {"samples": [ROWS[0].id]}, "headers": {"Idempotency-Key": "a key"}}
    path = service.root / "manifest.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:10])
    assert service("POST", "/requests", **sent).status_code == 409
    path.write_bytes(whole)
    again = service("POST", "/requests", **sent)
    assert (again.status_code, again.json()["state"]) == (202, "instant")
    assert service.work() == [again.json()["number"]]


def test_every_request_has_its_time_to_be_cancelled(root):
    """One that comes late is not taken along by one whose time is up, or whose deadline is near."""
    first, second, urgent = (row.id for row in BY_SOURCE["ann"][:3])
    with Workspace(root) as workspace:
        for sample in (first, second):
            workspace.queue.submit(Submission(ForgetRequest(samples=(sample,))))
        workspace.queue.submit(Submission(ForgetRequest(samples=(urgent,)), deadline=datetime.now(UTC)))
        workspace.queue.withhold()
        with workspace.context.catalogue.transaction() as db:
            early = (datetime.now(UTC) - timedelta(seconds=60)).isoformat()
            db.execute("UPDATE requests SET received = ? WHERE number = 1", (early,))
    with Workspace(root) as workspace:
        assert next_batch(workspace.context, 30.0) == [3, 1]
        assert sorted(next_batch(workspace.context, 0.0)) == [1, 2, 3]
