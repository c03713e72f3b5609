"""The worker: a process of its own that carries requests out, so that training delays no prediction.

    python -m shardgraph.service.runtime.worker WORKSPACE '{"grace": 0, "workers": null, "device": null}'

It reads standard input: a line says that there may be something to do, "stop" that it should end after the current
batch, and the end of the input that its service is gone; then it ends at once, wherever it is. What it was doing is in
the database, and the next worker does the rest.
"""

import json
import os
import sys
import threading
from pathlib import Path

from shardgraph.errors import ShardgraphError, WorkspaceBusy
from shardgraph.forget import Workspace, last_forgetting, measure
from shardgraph.service.runtime.logs import write_error, write_log
from shardgraph.storage.tables import inventory

IDLE = 0.5  # seconds between two looks at the queue when no line comes
BUSY = 0.1  # seconds until the write lock is tried again
AFTER_ERROR = (1.0, 60.0)  # seconds to wait after an error, at first and at most


class InputListener:
    """Reads standard input in a thread of its own."""

    def __init__(self) -> None:
        self.woken, self.stopping = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                self.stopping.set()
            self.woken.set()
        os._exit(0)  # the service is gone

    def wait(self, seconds: float) -> None:
        """Wait until a line comes, or the time is up."""
        self.woken.wait(seconds)
        self.woken.clear()


class ModelMeasurement:
    """Measures the accuracy of every new model once, while nothing else is to do; the ledger keeps the result."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._measured: tuple[str, int] | None = None  # the model, and the last forgetting before it was measured

    def update(self) -> None:
        """Measure the model if it is new or something was forgotten since; if that fails, it is not tried again."""
        workspace = self._workspace
        model, withheld = workspace.served.current_key()
        now = (model, last_forgetting(workspace.context.catalogue))
        if not model or withheld or now == self._measured or not inventory.count_held_out(workspace.context.catalogue):
            return
        self._measured = now
        workspace.context.reload_config()  # this may be the first training
        try:
            measure(workspace.context.catalogue, workspace.context.keys, model, workspace.evaluate)
        except ShardgraphError as error:
            write_error("not measured", error)
        finally:
            workspace.context.drop_models()


def work(workspace: Workspace, listener: InputListener, grace: float) -> None:
    """Carry out batch after batch until told to stop."""
    pause, measurement = AFTER_ERROR[0], ModelMeasurement(workspace)
    while not listener.stopping.is_set():
        try:
            done = workspace.queue.carry_out(grace)
            pause = AFTER_ERROR[0]
            if done:
                write_log("batch", requests=len(done))
            else:
                measurement.update()
                listener.wait(IDLE)
        except WorkspaceBusy:
            listener.stopping.wait(BUSY)
        except Exception as error:  # a full disk, a damaged file: nothing is lost, and the next try goes on from here
            write_error("worker error", error)
            listener.stopping.wait(pause)
            pause = min(2 * pause, AFTER_ERROR[1])


def main() -> None:
    """Run until the service says otherwise."""
    options = json.loads(sys.argv[2])
    listener = InputListener()
    os.nice(5)  # predictions go first
    with Workspace(Path(sys.argv[1]), workers=options["workers"], device=options["device"]) as workspace:
        work(workspace, listener, options["grace"])


if __name__ == "__main__":
    main()
