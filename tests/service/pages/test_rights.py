"""The rights pages: grant, predict, measure, provision, revoke; a consumer sees its own right."""

import json

from shardgraph.forget.workspace import Workspace
from tests.service.pages.conftest import ANN, entered
from tests.strategies import ROWS, embed, many


def test_a_right_says_when_not_all_sources_can_be_chosen(root, visit):
    rows = [row._replace(id=f"s{i}", source=f"source-{i:03d}") for i, row in enumerate(many(201))]
    with Workspace(root) as workspace:
        workspace.add(embed(rows))
        workspace.consumers.grant("acme", sources=["ann"])
    me = visit()
    assert "first 200 of 204" in me.get("/pages/rights").text
    assert "first 200 of 203" in me.get("/pages/rights/of?consumer=acme").text


def test_rights_are_given_asked_about_and_taken(visit):
    me = visit()
    me.get("/pages/rights")
    granted = me.post("/pages/rights/grant", {"consumer": "acme & co", "source": ['"ann"', '"bob"']})
    assert granted.status_code == 303
    assert "adapters used" not in me.get(granted.headers["location"]).text
    assert "adapters used" in me.get(granted.headers["location"] + "&reach=yes").text
    acme = {"of": '"acme & co"'}
    asked = acme | {"sample": json.dumps(ROWS[24].id)}
    before = me.post("/pages/rights/ask", asked).text
    assert "is labelled" in before
    assert 'id="accuracy"' in me.post("/pages/rights/measure", acme).text
    assert me.post("/pages/rights/revoke", acme | {"source": '"bob"'}).status_code == 303
    after = me.post("/pages/rights/ask", asked).text
    answers = [text.split("<tbody>")[1].split("</tbody>")[0] for text in (before, after)]
    assert answers[0] != answers[1]
    assert me.post("/pages/rights/provision", acme).status_code == 303
    assert me.post("/pages/rights/revoke", acme).status_code == 422
    everything = me.post("/pages/rights/revoke", acme | {"everything": "yes"})
    assert everything.headers["location"] == "/pages/rights"
    assert "No rights have been granted" in me.get("/pages/rights").text


def test_a_consumer_sees_its_own_right_and_no_sample(root, tokens, visit):
    with Workspace(root) as workspace:
        workspace.consumers.grant("the-consumer", sources=["ann"])
        workspace.consumers.grant("other", sources=["bob"])
    me = entered(visit, tokens["consumer"])
    own = me.get(me.get("/pages/rights").headers["location"])
    assert "Right of the-consumer" in own.text and "sample-0" not in own.text
    assert me.get("/pages/rights/of?consumer=other").status_code == 404
    assert me.post("/pages/rights/measure", {"of": '"other"'}).status_code == 404
    assert me.post("/pages/rights/measure", {"of": '"the-consumer"'}).status_code == 200
    assert me.post("/pages/rights/ask", {"of": '"the-consumer"', "sample": '"x"'}).status_code == 403


def test_only_held_out_samples_can_be_asked_about(visit):
    me = visit()
    me.get("/pages/rights")
    me.post("/pages/rights/grant", {"consumer": "acme", "source": '"ann"'})
    assert me.post("/pages/rights/ask", {"of": '"acme"', "sample": json.dumps(ANN)}).status_code == 422


def test_the_exclusive_workspace_keeps_no_model(service, visit):
    me = visit()
    me.get("/pages/rights")
    me.post("/pages/rights/grant", {"consumer": "acme", "source": '"ann"'})
    assert me.post("/pages/rights/measure", {"of": '"acme"'}).status_code == 200
    workspace = service.runtime._exclusive
    assert not workspace.consumers._models and workspace.served._model is None
