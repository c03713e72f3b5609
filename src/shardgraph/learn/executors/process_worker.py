"""The program of a worker process: reads tasks from stdin and writes results to stdout, as lines of JSON."""

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from shardgraph.errors import ShardgraphError
from shardgraph.learn.executors.base import GroupTask, run_task


def run_line(line: str) -> dict[str, Any]:
    """Run the task in one line of JSON; the result, or the error, as a plain dict."""
    try:
        return asdict(run_task(GroupTask.from_json(json.loads(line))))
    except Exception as error:  # the parent raises it
        kind = type(error).__name__ if isinstance(error, ShardgraphError) else "WorkspaceError"
        return {"error": f"{error}", "kind": kind}


def end_with_parent() -> None:
    """Start a thread that ends this process when the parent ends: its samples may be forgotten by then."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    for line in sys.stdin:
        try:
            print(json.dumps(run_line(line)), flush=True)
        except BrokenPipeError:  # the parent was killed
            os._exit(1)
