"""Serving a workspace: who may listen where, one process at a time, a clean end."""

import gc
import logging
import signal
import socket
import sys
import threading
from pathlib import Path

import torch
import uvicorn

from shardgraph.errors import ConfigError
from shardgraph.forget.workspace import Workspace
from shardgraph.service.app import create_app
from shardgraph.service.crew import Worker
from shardgraph.service.door import is_local
from shardgraph.service.logs import Lines, log
from shardgraph.service.tokens import any_token

LAST_CALLS = 10  # seconds that calls get to end


class Server(uvicorn.Server):
    """Sets `ending` before it waits for calls to end: streams end then, and would not otherwise."""

    def __init__(self, config: uvicorn.Config, ending: threading.Event) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let streams end, then calls."""
        self._ending.set()
        await super().shutdown(sockets)


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
) -> None:
    """Serve until told to end. Another address than loopback needs tokens, for those without one can do everything."""
    if originals is not None and not originals.is_dir():
        raise ConfigError(f"the originals must lie in a folder, {originals} is none: name another, or leave it out")
    with Workspace(root, device=device) as workspace:
        if not is_local(host) and not any_token(workspace.catalogue):
            raise ConfigError(
                f"{host} can be reached by others, and this workspace has no tokens: make one with `shardgraph token`"
            )
        workspace.check_numerics()
        with workspace.serving_lock(), listening(host, port) as listener:
            if record is not None:
                workspace.keep_record(record)
            if replayed := workspace.replay():
                log("restored workspace", samples=replayed.samples)
            sys.setswitchinterval(0.0005)  # the event loop should not wait long for a thread that computes
            torch.set_num_threads(1)  # a prediction is small, and the other cores have work
            hands = Worker(root, grace=grace, workers=workers, device=device)
            app = create_app(root, hands, originals, grace=grace)
            address, found = listener.getsockname()[:2]
            log("listening", address=address, port=found)
            gc.freeze()  # what was imported stays: looking through it again and again would hold calls up
            logging.getLogger("uvicorn").handlers = [Lines(logging.WARNING)]
            config = uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=LAST_CALLS,
            )
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: None)  # uvicorn ends on them, and then raises them again
            Server(config, app.state.ending).run(sockets=[listener])
            log("ended")


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # so that asyncio sets TCP_NODELAY
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listener
