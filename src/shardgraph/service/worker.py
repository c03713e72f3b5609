"""The worker: a process of its own that carries out what waits, so that training disturbs no prediction.

    python -m shardgraph.service.worker WORKSPACE '{"grace": 0, "workers": null, "device": null}'

It hears a line on standard input when something may have come in, "stop" when it should end after the batch it is
at, and the end of the input when its service is gone: then it ends at once, wherever it is. What it was doing is in
the catalogue, and the next worker does the rest.
"""

import json
import os
import sys
import threading
from pathlib import Path

from shardgraph.errors import ShardgraphError, WorkspaceBusy
from shardgraph.forget.config import Config
from shardgraph.forget.queue.statistics import measure
from shardgraph.forget.views.served import served_key
from shardgraph.forget.workspace import Workspace
from shardgraph.service.logs import log, place_of

IDLE = 0.5  # seconds between looks where nobody calls
BUSY = 0.1  # seconds until the lock is tried again
TROUBLE = (1.0, 60.0)  # seconds to wait after an error, at first and at most


class Ears:
    """Listens to standard input in a thread of its own."""

    def __init__(self) -> None:
        self.called, self.stopping = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                self.stopping.set()
            self.called.set()
        os._exit(0)  # the service is gone

    def wait(self, seconds: float) -> None:
        """Wait until somebody calls, or the time is up."""
        self.called.wait(seconds)
        self.called.clear()


class Gauge:
    """Measures every model once, while there is nothing else to do; the ledger keeps what it found."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._tried = workspace, ""

    def look(self) -> None:
        """Measure the model, if it is another than the last time; one that cannot be measured is not tried again."""
        workspace = self._workspace
        model, withheld = served_key(workspace.store)
        if not model or withheld or model == self._tried or not workspace.catalogue.count("unit LIKE 'test:%'"):
            return
        self._tried = model
        workspace.config = Config.load(workspace.root)  # this may be the first training
        try:
            measure(workspace.catalogue, workspace.secrets, model, workspace.evaluate)
        except ShardgraphError as error:
            log("not measured", kind=type(error).__name__, where=place_of(error))
        finally:
            workspace.drop_models()


def work(workspace: Workspace, ears: Ears, grace: float) -> None:
    """Carry out batch after batch until told to stop."""
    pause, gauge = TROUBLE[0], Gauge(workspace)
    while not ears.stopping.is_set():
        try:
            done = workspace.carry_out(grace)
            pause = TROUBLE[0]
            if done:
                log("batch", requests=len(done))
            else:
                gauge.look()
                ears.wait(IDLE)
        except WorkspaceBusy:
            ears.stopping.wait(BUSY)
        except Exception as error:  # a full disk, a damaged file: nothing is lost, and the next try goes on from here
            log("trouble", kind=type(error).__name__, where=place_of(error))
            ears.stopping.wait(pause)
            pause = min(2 * pause, TROUBLE[1])


def main() -> None:
    """Run until the service says otherwise."""
    options = json.loads(sys.argv[2])
    ears = Ears()
    os.nice(5)  # predictions go first
    with Workspace(Path(sys.argv[1]), workers=options["workers"], device=options["device"]) as workspace:
        work(workspace, ears, options["grace"])


if __name__ == "__main__":
    main()
