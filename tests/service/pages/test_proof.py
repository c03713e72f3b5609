"""The proof pages: genuine certificates pass, changed ones are refused."""

import json

from shardgraph.forget.workspace import Workspace
from tests.service.pages.conftest import ANN, BOB, forget


def certificate(service, me):
    place = forget(me, "sample", ANN).headers["location"]
    service.work()
    return place, me.get(f"{place.replace('requests', 'proof')}/certificate.json")


def test_a_certificate_that_was_tampered_with_is_refused(service, visit):
    me = visit()
    _, got = certificate(service, me)
    assert "attachment" in got.headers["content-disposition"]
    me.get("/pages/proof")
    assert "Genuine" in me.post("/pages/proof/check", {"pasted": got.text}).text
    good = got.json()
    for wrong in (
        good | {"time": "2020-01-01T00:00:00+00:00"},
        good | {"entries": []},
        good | {"entries": [1, None]},
        good | {"signature": 7},
        good | {"signature": "00" * 64},
        good | {"public_key": "00" * 32},
        good | {"number": "1"},
        good | {"more": 1},
        {},
        [],
    ):
        answer = me.post("/pages/proof/check", {"pasted": json.dumps(wrong)})
        assert answer.status_code == 200 and "Refused" in answer.text and "Genuine" not in answer.text, wrong
    file = {"file": ("c.json", b"\xff no json", "application/json")}
    assert "Refused" in me.post("/pages/proof/check", files=file).text


def test_verify_looks_at_the_file_on_disk(root, service, visit):
    me = visit()
    place, _ = certificate(service, me)
    path = root / "certificates" / "000001.json"
    path.write_bytes(path.read_bytes().replace(b'"forget"', b'"repair"'))
    proof = place.replace("requests", "proof")
    me.get(proof)
    assert "Refused" in me.post(f"{proof}/verify", follow_redirects=True).text


def test_one_sample_is_found_in_a_certificate_by_its_nonce_alone(root, service, visit):
    me = visit()
    _, got = certificate(service, me)
    assert me.post("/pages/proof/1/nonce", {"sample": BOB}).status_code == 404
    shown = me.post("/pages/proof/1/nonce", {"sample": ANN})
    with Workspace(root) as workspace:
        nonce = workspace.certificates.nonces(1, [ANN])[ANN]
    assert nonce in shown.text
    sent = {"pasted": got.text, "sample": ANN}
    assert "Genuine" in me.post("/pages/proof/check", sent | {"nonce": nonce}).text
    assert "Refused" in me.post("/pages/proof/check", sent | {"nonce": "00"}).text


def test_the_whole_workspace_is_verified(service, visit):
    me = visit()
    certificate(service, me)
    me.get("/pages/proof")
    assert "Genuine" in me.post("/pages/proof/everything").text
