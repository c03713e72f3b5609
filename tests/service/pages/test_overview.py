"""The overview and the graph: figures of the ledger, and the drawing."""

from shardgraph.forget.queue.statistics import costs, measure, measurements
from shardgraph.forget.workspace import Workspace
from shardgraph.service.pages.graph import elements
from tests.service.pages.conftest import ANN, forget


def test_the_ledger_knows_what_forgetting_cost_and_how_accurate_the_model_was(root, service, visit):
    me = visit()
    forget(me, "sample", ANN)
    service.work()
    with Workspace(root) as workspace:
        found = costs(workspace.context.catalogue)
        assert (found.forgets, found.retraining) == (1, 24) and 0 < found.revisited < 24
        for _ in range(2):  # the second time there is nothing new to say
            measure(workspace.context.catalogue, workspace.context.keys, workspace.model().digest, workspace.evaluate)
        assert [one.accuracy for one in measurements(workspace.context.catalogue)] == [workspace.evaluate()["accuracy"]]
    page = me.get("/pages").text
    assert "1 erasure read" in page and "<polyline" in page


def test_the_drawing_has_every_shard_once_and_no_arrow_within_a_group(root):
    with Workspace(root) as workspace:
        drawn = elements(workspace.views.graph())
    names = [shard[0] for group in drawn["groups"] for shard in group["shards"]]
    assert sorted(names) == ["ann", "bob", "web"]
    assert all(source != target for source, target, _ in drawn["edges"])
