"""A worker process: tasks come in as JSON lines, results go out as JSON lines."""

import json
import os
import sys
import threading
import time
from dataclasses import asdict

from shardgraph.errors import ShardgraphError
from shardgraph.learn.executors.base import GroupTask, run_task


def answer(line: str) -> dict:
    """The result of one task, or its error, as a plain dict."""
    try:
        return asdict(run_task(GroupTask.from_json(json.loads(line))))
    except Exception as error:  # it must reach the parent, which knows what to do
        kind = type(error).__name__ if isinstance(error, ShardgraphError) else "WorkspaceError"
        return {"error": f"{error}", "kind": kind}


def end_with_parent() -> None:
    """End when the parent does: a group that it no longer waits for may have seen what is forgotten by then."""
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
            print(json.dumps(answer(line)), flush=True)
        except BrokenPipeError:  # the parent was killed: nobody waits, and nothing is to be said
            os._exit(1)
