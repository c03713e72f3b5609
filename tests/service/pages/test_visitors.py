"""Which page which role sees, and how a page fails."""

import json

import pytest

from tests.service.pages.conftest import ANN, BOB, entered, forget, found, preview
from tests.strategies import BY_SOURCE

PAGES = {
    "/pages": {"operator", "auditor", "owner"},
    "/pages/graph": {"operator", "auditor"},
    "/pages/graph.json": {"operator", "auditor"},
    "/pages/graph/shard?name=ann": {"operator", "auditor"},
    "/pages/forget": {"operator", "owner"},
    "/pages/requests": {"operator", "auditor", "owner"},
    "/pages/proof": {"operator", "auditor", "owner"},
    "/pages/rights": {"operator", "auditor"},  # a consumer is redirected to its own
}


@pytest.mark.parametrize("role", ["operator", "auditor", "owner", "consumer"])
def test_a_role_sees_its_pages_and_no_other(tokens, visit, role):
    me = entered(visit, tokens[role])
    for path, roles in PAGES.items():
        answer = me.get(path)
        wanted = 200 if role in roles else 303 if (path, role) == ("/pages/rights", "consumer") else 403
        assert answer.status_code == wanted, (path, answer.text)
        assert wanted == 303 or "html" in answer.headers["content-type"] or path.endswith("json")


def test_an_owner_is_barred_from_what_is_not_its_own(tokens, service, visit):
    operator, owner = entered(visit, tokens["operator"]), entered(visit, tokens["owner"])
    place = forget(operator, "sample", BOB).headers["location"]
    proof = place.replace("requests", "proof")
    service.work()
    for path in (place, f"{place}/events", proof, f"{proof}/certificate.json", "/pages/graph", "/pages/rights"):
        assert owner.get(path).status_code in (403, 404), path
    assert "Request 1" not in owner.get("/pages/requests").text + owner.get("/pages/proof").text
    page = found(owner, "sample", "sample").text
    assert BOB not in page and ANN in page
    other = BY_SOURCE["bob"][1].id
    assert preview(owner, "sample", other).status_code == forget(owner, "sample", other).status_code == 404
    assert owner.post(f"{place}/cancel").status_code == 404
    assert owner.post(f"{place}/retry").status_code == 403
    assert owner.post("/pages/proof/everything").status_code == 403
    assert forget(owner, "source", "ann").status_code == 303


def test_an_auditor_changes_nothing(tokens, visit):
    me = entered(visit, tokens["auditor"])
    me.get("/pages")
    for path in ("forget/submit", "forget/find", "rights/grant", "rights/revoke", "rights/provision", "rights/ask"):
        assert me.post(f"/pages/{path}", {"consumer": "acme", "source": "ann"}).status_code == 403, path


def test_half_a_character_is_refused_with_a_page(service, visit):
    me = visit()
    forget(me, "sample", ANN)
    service.work()
    whole = json.loads(me.get("/pages/proof/1/certificate.json").content) | {"number": "\ud800"}
    answer = me.post("/pages/proof/check", {"pasted": json.dumps(whole)})
    assert answer.status_code == 200 and "Refused" in answer.text and "Genuine" not in answer.text
    answer = me.post("/pages/proof/1/nonce", {"sample": b"\xed\xa0\x80"})
    assert answer.status_code in (404, 422) and "<h1>" in answer.text
    assert preview(me, "sample", "\ud800").status_code == 422


def test_a_form_that_is_too_large_is_refused_with_a_page(visit):
    me = visit()
    me.get("/pages/proof")
    answer = me.post("/pages/proof/check", {"pasted": "x" * (5 << 20)})
    assert answer.status_code == 413 and "<h1>Too large</h1>" in answer.text
    assert answer.headers["x-frame-options"] == "DENY"
