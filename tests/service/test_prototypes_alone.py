"""A service over a model without adapters: requests, predictions, pages and figures."""

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.learn.recipe import Recipe
from tests.service.pages.conftest import ANN, PageClient, preview
from tests.strategies import LABELS, ROWS, embed, never_saw, promised_files


@pytest.fixture
def root(fast_path):
    """A workspace without adapters."""
    with Workspace.create(fast_path / "ws", seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(BySource(), Recipe(adapter="none"))
    return fast_path / "ws"


def test_a_request_is_served_at_once_and_exactly(root, service, fast_path):
    sent = {"features": embed(ROWS[24:]).features.tolist(), "top": 4}
    before = service("POST", "/predictions", json=sent).json()
    number = service("POST", "/requests", json={"samples": [ANN]}).json()["number"]
    during = service("POST", "/predictions", json=sent).json()
    assert during["predictions"] != before["predictions"], "the sample is subtracted before the request is done"
    service.work()
    after = service("POST", "/predictions", json=sent).json()
    assert service("GET", f"/requests/{number}").json()["state"] == "done"
    assert after["predictions"] == during["predictions"]
    with Workspace(root) as workspace:
        kept = [row for row in ROWS if row.id != ANN]
        assert promised_files(root) == never_saw(workspace, kept, fast_path / "never")
    assert "shardgraph_adapters_served_ratio 1.0" in service("GET", "/metrics").text


def test_the_pages_say_that_prototypes_answer(service):
    me = PageClient(service)
    assert "Prototypes alone answer, for 4 classes." in me.get("/pages").text
    assert "adapters to rebuild</span><strong>0<" in preview(me, "sample", ANN).text
    shard = me.get("/pages/graph/shard", params={"name": "ann"})
    assert shard.status_code == 200 and "adapters to rebuild</span><strong>0<" in shard.text
    drawn = me.get("/pages/graph.json").json()
    assert drawn["groups"]
    me.client.close()
