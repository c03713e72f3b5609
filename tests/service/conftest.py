"""A service in this process over a real workspace, on a real socket; requests are carried out when a test says so."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.app import create_app
from shardgraph.service.auth.tokens import ROLES, create_token
from shardgraph.service.server import Server, listen
from tests.strategies import LABELS, QUICK, ROWS, embed


class ManualWorker:
    """Carries requests out in this process, a batch each time `work` is called."""

    def __init__(self, root: Path) -> None:
        self._workspace = Workspace(root, workers=1)
        self.alive = True

    def start(self) -> None:
        pass

    def wake(self) -> None:
        pass

    def stop(self) -> None:
        self._workspace.close()

    def work(self) -> list[int]:
        return self._workspace.queue.carry_out()


class RunningService:
    """A running service, and a client of it."""

    def __init__(self, root: Path, app: FastAPI, worker: ManualWorker, base: str) -> None:
        self.root, self.app, self.worker, self.base = root, app, worker, base
        self.runtime = app.state.runtime
        self.client = httpx.Client(base_url=base, timeout=30)

    def __call__(self, method: str, path: str, token: str | None = None, **options: object) -> httpx.Response:
        headers = {**options.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        return self.client.request(method, path, headers=headers, **options)

    def work(self) -> list[int]:
        """Carry out a batch, and wait until the service serves the result."""
        done = self.worker.work()
        self.runtime.sync()
        return done


@contextmanager
def running(root: Path, until: str = "/ready") -> Iterator[RunningService]:
    """Serve a workspace on a free port of loopback, once `until` answers with 200."""
    worker = ManualWorker(root)
    app = create_app(root, worker)
    listener = listen("127.0.0.1", 0)
    listener.listen()  # so that a call which comes too early waits
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = Server(config, app.state.supervisor.ending)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    service = RunningService(root, app, worker, f"http://127.0.0.1:{listener.getsockname()[1]}")
    while service("GET", until).status_code != 200 and thread.is_alive():
        time.sleep(0.02)
    yield service
    service.client.close()
    server.should_exit = True
    thread.join()
    listener.close()


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def create_tokens(root: Path) -> dict[str, str]:
    """A token of every role; the owner's source is ann."""
    with Workspace(root) as workspace:
        return {
            role: create_token(workspace.context.catalogue, f"the-{role}", role, ("ann",) if role == "owner" else ())
            for role in ROLES
        }


@pytest.fixture(scope="session")
def trained_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained workspace that no test changes."""
    root = tmp_path_factory.mktemp("served") / "ws"
    with Workspace.create(root, seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(BySource(), QUICK)
    return root


@pytest.fixture(scope="module")
def module_root(trained_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it for the tests of one module."""
    return Path(shutil.copytree(trained_root, tmp_path_factory.mktemp("module") / "ws"))


@pytest.fixture
def root(trained_root: Path, fast_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(trained_root, fast_path / "ws"))


@pytest.fixture
def service(root: Path) -> Iterator[RunningService]:
    """A running service without tokens: every caller is the operator."""
    with running(root) as found:
        yield found


@pytest.fixture(scope="module")
def shared_service(module_root: Path) -> Iterator[RunningService]:
    """A running service for the tests of one module, whose workspace none of them changes."""
    with running(module_root) as found:
        yield found


@pytest.fixture
def tokens(root: Path) -> dict[str, str]:
    """A token of every role; the owner's source is ann."""
    return create_tokens(root)
