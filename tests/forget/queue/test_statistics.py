"""What the ledger keeps of past models' accuracy, what of it is shown, and that it can be dropped as the docs say."""

from pathlib import Path

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.queue.statistics import measure, measurements
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import ledger
from tests.strategies import RING, ROWS, all_bytes

DOCS = Path(__file__).parents[3] / "docs" / "guarantees.md"


def measured(workspace):
    measure(workspace.context.catalogue, workspace.context.keys, workspace.model().digest, workspace.evaluate)


def test_measurements_leave_with_a_forget_and_leave_no_byte(trained):
    with trained(RING) as workspace:
        measured(workspace)
        assert len(measurements(workspace.context.catalogue)) == 1
        workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
        assert measurements(workspace.context.catalogue) == [], "the model that was measured had seen the sample"
        root = workspace.root
    assert not any(b'"accuracy"' in raw for raw in all_bytes(root).values())
    with Workspace(root) as workspace:
        assert workspace.verify(full=True).ok
        measured(workspace)
        assert len(measurements(workspace.context.catalogue)) == 1


def test_a_measurement_that_a_request_overtakes_is_not_recorded(trained):
    with trained(RING) as workspace:

        def overtaken():
            figures = workspace.evaluate()
            workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
            return figures

        measure(workspace.context.catalogue, workspace.context.keys, workspace.model().digest, overtaken)
        assert ledger.last_events(workspace.context.catalogue, "measured", 1) == []
        workspace.queue.cancel(1)
        measured(workspace)
        assert len(measurements(workspace.context.catalogue)) == 1


def test_held_out_samples_that_wait_to_be_forgotten_are_not_measured(trained):
    with trained(RING) as workspace:
        before = workspace.evaluate()["samples"]
        workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[24].id,))))
        assert workspace.evaluate()["samples"] == before - 1


def test_an_evaluation_that_a_request_overtakes_is_made_anew(trained):
    with trained(RING) as workspace:
        used = []

        def compute(model):
            if not used:
                workspace.queue.submit(Submission(ForgetRequest(labels=(ROWS[0].label,))))
            used.append(model)
            return model.classes

        assert ROWS[0].label not in workspace._answer(None, compute)
        assert [ROWS[0].label in model.classes for model in used] == [True, False]
