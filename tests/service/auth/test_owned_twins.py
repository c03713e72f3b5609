"""Two owners who gave the same content: neither learns of the other's sample, nor moves it; nor do their keys meet."""

from dataclasses import replace

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.service.auth.tokens import create_token
from shardgraph.storage.tables import inventory
from tests.service.conftest import running
from tests.strategies import BY_SOURCE, embed

MINE, OWN, OTHERS = BY_SOURCE["ann"][0].id, "ann-has-it-twice", "bob-has-it-too"


@pytest.fixture
def owners(root):
    """Tokens of ann and bob, who hold the same content under other names."""
    content = embed(BY_SOURCE["ann"][:1])
    with Workspace(root, workers=1) as workspace:
        workspace.add(replace(content, ids=(OWN,)))
        workspace.add(replace(content, ids=(OTHERS,), sources=("bob",)))
        workspace.train()
        return {name: create_token(workspace.context.catalogue, name, "owner", (name,)) for name in ("ann", "bob")} | {
            "op": create_token(workspace.context.catalogue, "op", "operator", ())
        }


@pytest.fixture
def service(root, owners):
    with running(root) as found:
        yield found


def here(root, sample):
    with Workspace(root) as workspace:
        return bool(inventory.known_ids(workspace.context.catalogue, [sample]))


def test_a_preview_names_no_twin_of_another_owner(service, owners):
    body = {"samples": [MINE]}
    assert service("POST", "/requests/preview", owners["ann"], json=body).json()["twins"] == [OWN]
    assert service("POST", "/requests/preview", owners["op"], json=body).json()["twins"] == [OWN, OTHERS]
    wide = service("POST", "/requests/preview", owners["ann"], json=body | {"twins": True})
    assert wide.json()["samples"] == 2 and OTHERS not in wide.text


def test_a_request_with_twins_takes_no_sample_of_another_owner(service, owners):
    answer = service("POST", "/requests", owners["ann"], json={"samples": [MINE], "twins": True})
    assert answer.status_code == 202 and answer.json()["samples"] == 2 and OTHERS not in answer.text
    service.work()
    assert not here(service.root, MINE) and not here(service.root, OWN)
    assert here(service.root, OTHERS), "what is bob's stays"


def test_the_same_key_of_two_tokens_is_two_requests(service, owners):
    sent = {"json": {"samples": [MINE]}, "headers": {"Idempotency-Key": "one"}}
    mine = service("POST", "/requests", owners["ann"], **sent).json()["number"]
    assert service("POST", "/requests", owners["ann"], **sent).json()["number"] == mine
    answer = service("POST", "/requests", owners["op"], **sent)
    assert answer.status_code == 202 and answer.json()["number"] != mine
    strange = service("POST", "/requests", owners["bob"], **sent)
    assert strange.status_code == 404 and str(mine) not in strange.json()
