"""What every call passes: the call log, the body limit, the check of callers."""

import socket
import time

import httpx
import pytest

from tests.service.conftest import running
from tests.strategies import BY_SOURCE, ROWS


def test_bodies_have_a_limit_whatever_they_say_about_themselves(shared_service):
    where = f"{shared_service.base}/requests"  # a connection of its own for each: what is left of the body ends it
    assert httpx.post(where, content=b" " * (5 << 20)).status_code == 413
    chunks = (b" " * (1 << 20) for _ in range(6))
    assert httpx.post(where, content=chunks).status_code == 413


def test_a_failure_shows_no_stack_and_logs_no_text(shared_service, capfd, monkeypatch):
    def broken(*_):
        raise RuntimeError("the secret of ann")

    monkeypatch.setattr(type(shared_service.runtime._reader), "status", broken)
    answer = shared_service("GET", "/status")
    assert answer.status_code == 500 and set(answer.json()) == {"error", "kind"}
    assert "secret" not in answer.text and "secret" not in capfd.readouterr().err


def test_logs_name_routes_and_no_one(shared_service, capfd):
    shared_service("GET", "/requests/7", params={"who": "ann"})
    shared_service("POST", "/requests/preview", json={"samples": [ROWS[0].id]})
    log, patience = "", time.monotonic() + 10  # a line is written after its answer
    while log.count('"event": "call"') < 2 and time.monotonic() < patience:
        log += capfd.readouterr().err
    assert '"/requests/{number}"' in log and "ann" not in log and ROWS[0].id not in log and "127.0.0.1" not in log


def test_without_tokens_only_this_machine_and_no_other_sites_page_is_answered(service):
    what = {"json": {"samples": [BY_SOURCE["ann"][0].id]}}
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert service("POST", "/requests", headers=headers, **what).status_code == 403, headers
        assert service("GET", "/status", headers=headers).status_code == 403, headers
    assert service("GET", "/health", headers={"Host": "evil.example"}).status_code == 200
    assert service("GET", "/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 303, "a link leads to the pages"
    assert service("GET", "/requests").json()["requests"] == []
    own = {"Origin": service.base, "Sec-Fetch-Site": "same-origin"}
    assert service("POST", "/requests", headers=own, **what).status_code == 202
    assert service("POST", "/requests/1/cancel", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


FORM = "Content-Type: multipart/form-data; boundary=x"


@pytest.mark.parametrize("path", ["/predictions/images", "/predictions", "/requests"])
def test_without_a_token_no_body_is_waited_for(root, tokens, path):
    with running(root) as service:
        host, port = service.base.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as line:
            line.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n{FORM}\r\n\r\n".encode())
            assert line.recv(64).startswith(b"HTTP/1.1 401"), "before a byte of it came"
