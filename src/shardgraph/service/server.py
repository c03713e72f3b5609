"""Serving a workspace: the address, one serving process at a time, signals, and a clean end."""

import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import uvicorn

from shardgraph.errors import ConfigError
from shardgraph.forget import Workspace
from shardgraph.service.app import create_app
from shardgraph.service.auth.tokens import any_token
from shardgraph.service.middleware import is_local
from shardgraph.service.routes.predictions import BackboneCache
from shardgraph.service.runtime.logs import LogHandler, write_log
from shardgraph.service.runtime.supervisor import WorkerProcess

LAST_CALLS = 10  # seconds that calls get to end


class Server(uvicorn.Server):
    """Sets `ending` before it waits for calls to end: otherwise streams would not end."""

    def __init__(self, config: uvicorn.Config, ending: threading.Event) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then wait for calls."""
        self._ending.set()
        await super().shutdown(sockets)

    @contextmanager
    def ending_on_signals(self) -> Iterator[None]:
        """End on SIGINT and SIGTERM from now on, also before `run` installs its own handlers.

        `run` raises the signals again when it has ended; the handlers here keep them from killing the process.
        """
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    root: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 0.0,
    workers: int | None = None,
    device: str | None = None,
    record: Path | None = None,
    originals: Path | None = None,
    backbone_path: str | None = None,
) -> None:
    """Serve until a signal ends it. An address other than loopback needs tokens, for without them anybody may do
    everything."""
    if originals is not None and not originals.is_dir():
        raise ConfigError(f"the originals must lie in a folder, {originals} is none: name another, or leave it out")
    with Workspace(root, device=device) as workspace:
        if not is_local(host) and not any_token(workspace.context.catalogue):
            raise ConfigError(
                f"{host} can be reached by others, and this workspace has no tokens: create one with `shardgraph token`"
            )
        workspace.context.check_numerics()
        cache = BackboneCache(root, backbone_path)
        if backbone_path is not None:
            cache.load(workspace.config)  # a wrong path is an error now, not at the first prediction
        with workspace.context.serving_lock(), listen(host, port) as listener:
            if record is not None:
                workspace.queue.keep_log(record)
            if replayed := workspace.queue.replay(full=True):
                write_log("restored workspace", samples=replayed.samples)
            for note in workspace.context.notes:
                write_log("record", says=note)
            worker = WorkerProcess(root, grace=grace, workers=workers, device=device)
            _run(root, worker, listener, originals, grace, cache)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # so that asyncio sets TCP_NODELAY
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listener


def _run(
    root: Path,
    worker: WorkerProcess,
    listener: socket.socket,
    originals: Path | None,
    grace: float,
    backbone: BackboneCache,
) -> None:
    sys.setswitchinterval(0.0005)  # the event loop must not wait long for a thread that computes
    torch.set_num_threads(1)  # a prediction is small, and the worker needs the other cores
    app = create_app(root, worker, originals, grace=grace, backbone=backbone)
    logging.getLogger("uvicorn").handlers = [LogHandler(logging.WARNING)]
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=LAST_CALLS,
    )
    server = Server(config, app.state.supervisor.ending)
    gc.freeze()  # imported modules stay: collections that walk through them would delay calls
    with server.ending_on_signals():
        address, port = listener.getsockname()[:2]
        write_log("listening", address=address, port=port)
        server.run(sockets=[listener])
    write_log("ended")
