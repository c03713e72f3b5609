"""Routes for those who check: what each role is told of a served state; no redirect to a host that a caller names."""

from tests.strategies import BY_SOURCE


def test_a_consumer_is_not_told_which_requests_are_withheld(service, tokens):
    first = BY_SOURCE["ann"][0].id
    assert service("POST", "/requests", tokens["operator"], json={"samples": [first]}).status_code == 202
    state = service.runtime.served.current.id
    found = {
        role: service("GET", f"/states/{state}", tokens[role]).json() for role in ("operator", "auditor", "consumer")
    }
    assert [found[role]["withheld"] for role in ("operator", "auditor", "consumer")] == [[1], [1], None]
    assert found["consumer"]["adapters"] == found["operator"]["adapters"]


def test_a_slash_at_the_end_leads_nowhere(service, tokens):
    for path in ("/status/", "/requests/", "/ledger/", "/health/"):
        answer = service("GET", path, tokens["operator"], headers={"Host": "elsewhere.example"})
        assert answer.status_code == 404 and "location" not in answer.headers
