"""Opening a workspace, as every command does it: what a crash interrupted is finished first."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import shardgraph
from shardgraph.cli.options import ANYWHERE, Machines
from shardgraph.cli.output import say
from shardgraph.cli.progress import Bars


@contextmanager
def opened(
    path: Path, on: Machines = ANYWHERE, *, device: str | None = None, resume: bool = True
) -> Iterator["shardgraph.Workspace"]:
    """The workspace at `path`; print when it is closed, for until then bars may stand on the terminal."""
    bars = Bars()
    quiet = redirect_stdout(sys.stderr) if on.executor == "ray" else nullcontext()  # Ray prints what it lost
    try:
        with quiet, shardgraph.Workspace(path, device=device, progress=bars, **on.options()) as workspace:
            for certificate in workspace.resume() if resume else ():
                bars.close()
                say(f"finished a forget that had been interrupted: certificate {certificate.number}")
            yield workspace
    finally:
        bars.close()
