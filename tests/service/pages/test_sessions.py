"""Log-in and forms: sessions that are new at every log-in, end, and cannot be used by another site."""

import re
from html import unescape

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.service.auth.tokens import create_token, revoke_token
from shardgraph.service.pages import sessions
from shardgraph.service.pages.sessions import HOURS, Sessions

COOKIE = "shardgraph_session"


def test_a_session_ends_after_its_hours():
    time = [0.0]
    sessions = Sessions(clock=lambda: time[0])
    key = sessions.open("ann", "hash")
    assert sessions.find(key).name == "ann"
    time[0] = HOURS * 3600
    assert sessions.find(key) is None


def test_nothing_is_held_for_strangers_so_they_push_nobody_out(service, tokens, visit, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    me = visit()
    me.get("/pages/login")
    for path in ("login", "login", "no", "requests", "login", "no"):
        visit().get(f"/pages/{path}")
    assert len(service.app.state.sessions) == 0
    assert me.post("/pages/login", {"token": tokens["operator"]}).headers["location"] == "/pages"


def test_the_token_of_a_form_is_good_under_its_own_cookie_alone(tokens, visit):
    me, other = visit(), visit()
    me.get("/pages/login")
    other.get("/pages/login")
    assert other.post("/pages/login", {"token": tokens["operator"], "csrf": me.csrf}).status_code == 403
    other.client.cookies.clear()
    assert other.post("/pages/login", {"token": tokens["operator"], "csrf": me.csrf}).status_code == 403


def test_the_log_in_leads_back_to_the_whole_address(tokens, visit, root):
    with Workspace(root) as workspace:
        workspace.consumers.grant("a&b", sources=["ann"])
    me, place = visit(), "/pages/rights/of?consumer=a%26b"
    form = me.get(me.get(place).headers["location"])
    wanted = unescape(re.search(r'name="next" value="([^"]*)"', form.text).group(1))
    answer = me.post("/pages/login", {"token": tokens["operator"], "next": wanted})
    assert answer.headers["location"] == place
    assert me.get(place).status_code == 200
    me.client.cookies.clear()
    assert me.get("/pages/requests?state=" + "x" * 2000).headers["location"] == "/pages/login?next=/pages/requests"


def test_without_a_session_a_page_leads_to_the_log_in_and_back(tokens, visit):
    me = visit()
    answer = me.get("/pages/requests")
    assert (answer.status_code, answer.headers["location"]) == (303, "/pages/login?next=/pages/requests")
    me.get(answer.headers["location"])
    back = me.post("/pages/login", {"token": tokens["operator"], "next": "/pages/requests"})
    assert back.headers["location"] == "/pages/requests"


@pytest.mark.parametrize(
    "place", ["https://evil.example/", "//evil.example", "/pages//evil.example", "/pages/\\evil", "/pages?/\n/evil"]
)
def test_the_log_in_leads_to_no_other_site(tokens, visit, place):
    assert visit().log_in(tokens["operator"], next=place).headers["location"] == "/pages"


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(tokens, visit):
    cookie = visit().log_in(tokens["operator"]).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/pages" in cookie
    behind_tls = visit()
    behind_tls.client.headers["x-forwarded-proto"] = "https"
    assert "Secure" in behind_tls.get("/pages/login").headers["set-cookie"]


def test_a_log_in_gives_a_new_id_and_the_old_one_is_worth_nothing(tokens, visit):
    me, thief = visit(), visit()
    me.get("/pages/login")
    planted = me.client.cookies[COOKIE]
    me.post("/pages/login", {"token": tokens["operator"]})
    assert me.client.cookies[COOKIE] != planted
    thief.client.cookies.set(COOKIE, planted, path="/pages")
    assert thief.get("/pages").status_code == 303
    assert me.get("/pages").status_code == 200


def test_a_wrong_token_is_refused_and_not_repeated(tokens, visit):
    answer = visit().log_in("sg.the-operator.wrong-secret")
    assert answer.status_code == 401
    assert "wrong-secret" not in answer.text


def test_after_the_log_out_the_id_is_worth_nothing(tokens, visit):
    me, thief = visit(), visit()
    me.log_in(tokens["operator"])
    me.get("/pages")
    thief.client.cookies.set(COOKIE, me.client.cookies[COOKIE], path="/pages")
    assert thief.get("/pages").status_code == 200
    me.post("/pages/logout")
    assert thief.get("/pages").status_code == 303


def test_a_revoked_token_ends_its_sessions_also_when_another_takes_its_name(root, tokens, visit):
    me = visit()
    me.log_in(tokens["operator"])
    assert me.get("/pages").status_code == 200
    with Workspace(root) as workspace:
        revoke_token(workspace.context.catalogue, "the-operator")
        create_token(workspace.context.catalogue, "the-operator", "operator")
    assert me.get("/pages").status_code == 303


def test_without_tokens_whoever_is_here_needs_none_until_there_is_one(root, visit):
    me = visit()
    assert me.get("/pages").status_code == 200
    with Workspace(root) as workspace:
        create_token(workspace.context.catalogue, "first", "operator")
    assert me.get("/pages").status_code == 303


def test_without_tokens_another_name_for_this_machine_is_refused(visit):
    assert visit().get("/pages", headers={"Host": "evil.example"}).status_code == 403


def test_a_form_without_its_token_or_from_another_site_does_nothing(service, visit):
    me, row = visit(), {"kind": "source", "name": '"ann"', "sure": "yes"}
    me.get("/pages/forget")
    for wrong in ({"csrf": ""}, {"csrf": "é"}, {"csrf": visit().get("/pages/forget").text[:10]}):
        assert me.post("/pages/forget/submit", row | wrong).status_code == 403
    elsewhere = {"sec-fetch-site": "cross-site"}
    me.get("/pages/forget")
    assert me.post("/pages/forget/submit", row, headers=elsewhere).status_code == 403
    assert service("GET", "/requests").json()["requests"] == []


def test_the_api_takes_no_cookie(tokens, service, visit):
    me = visit()
    me.log_in(tokens["operator"])
    session = me.client.cookies[COOKIE]
    assert service("GET", "/requests", headers={"Cookie": f"{COOKIE}={session}"}).status_code == 401


@pytest.mark.parametrize("path", ["/pages", "/pages/no", "/pages/static/pages.css", "/health", "/pages/graph.json"])
def test_every_answer_carries_the_security_headers(visit, path):
    headers = visit().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
