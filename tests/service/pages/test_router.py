"""Addresses of the pages: empty workspaces, unknown addresses, forms, slashes."""

import pytest

from shardgraph.forget.workspace import Workspace


def test_pages_of_an_empty_workspace_say_so(tmp_path):
    from fastapi.testclient import TestClient

    from shardgraph.service.app import create_app
    from tests.service.conftest import ManualWorker

    root = tmp_path / "ws"
    Workspace.create(root, seed=0).close()
    with TestClient(create_app(root, ManualWorker(root)), base_url="http://localhost") as client:
        for path in ("", "/graph", "/forget", "/requests", "/proof", "/rights"):
            answer = client.get(f"/pages{path}")
            assert answer.status_code == 200, path
            assert 'class="' in answer.text
        assert "There is no graph yet" in client.get("/pages/graph").text


def test_the_first_address_leads_to_the_pages_and_an_unknown_one_to_a_page_that_says_so(visit):
    me = visit()
    assert me.get("/").headers["location"] == "/pages"
    answer = me.get("/pages/nowhere")
    assert answer.status_code == 404 and "there is no such page" in answer.text


def test_addresses_that_take_forms_alone_lead_to_where_the_form_is(visit):
    forms = {
        "/forget/find": "/forget",
        "/forget/preview": "/forget",
        "/forget/submit": "/forget",
        "/requests/7/cancel": "/requests/7",
        "/proof/check": "/proof",
        "/proof/7/verify": "/proof/7",
        "/rights/measure": "/rights",
        "/logout": "",
    }
    for path, place in forms.items():
        assert visit().get(f"/pages{path}").headers["location"] == f"/pages{place}", path


@pytest.mark.parametrize(
    ("path", "place"), [("/", ""), ("/graph/", "/graph"), ("//evil.example/", "/evil.example"), ("///", "")]
)
def test_an_address_with_a_slash_too_many_leads_to_the_page(visit, path, place):
    assert visit().get(f"/pages{path}").headers["location"] == f"/pages{place}"
