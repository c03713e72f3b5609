"""The worker measures every new model once."""

from shardgraph.forget.queue.statistics import measurements
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.runtime.worker import ModelMeasurement
from tests.service.conftest import ROWS
from tests.strategies import QUICK, embed


def test_a_first_training_beside_the_worker_is_measured(fast_path):
    with Workspace.create(fast_path / "ws", seed=0, workers=1) as early:
        measurement = ModelMeasurement(early)
        measurement.update()
        with Workspace(early.root, workers=1) as other:
            other.add(embed(ROWS))
            other.train(BySource(), QUICK)
        measurement.update()
        assert len(measurements(early.catalogue)) == 1
