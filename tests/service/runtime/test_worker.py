"""The worker measures every new model once, and needs nothing of the web."""

import subprocess
import sys

from shardgraph.forget.queue.statistics import measurements
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.runtime.worker import ModelMeasurement
from tests.service.processes import ENVIRONMENT
from tests.strategies import QUICK, ROWS, embed


def test_a_first_training_beside_the_worker_is_measured(fast_path):
    with Workspace.create(fast_path / "ws", seed=0, workers=1) as early:
        measurement = ModelMeasurement(early)
        measurement.update()
        with Workspace(early.root, workers=1) as other:
            other.add(embed(ROWS))
            other.train(BySource(), QUICK)
        measurement.update()
        assert len(measurements(early.context.catalogue)) == 1


def test_the_worker_and_the_tokens_load_no_web_framework():
    modules = "shardgraph.service.runtime.worker, shardgraph.service.auth.tokens"
    web = ("fastapi", "starlette", "uvicorn", "jinja2", "prometheus_client")
    script = f"import sys, {modules}; print([name for name in {web} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
