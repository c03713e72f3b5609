"""A service in this process over a real workspace, on a real socket; requests are carried out when a test says so."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.app import create_app
from shardgraph.service.serve import Server, listening
from shardgraph.service.tokens import ROLES, create_token
from tests.strategies import LABELS, QUICK, embed, many

ROWS = [*many(24), *many(4, split="test")]
BY_SOURCE = {name: [row for row in ROWS[:24] if row.source == name] for name in ("ann", "bob", "web")}


class ByHand:
    """Carries requests out in this process, a batch each time `work` is called."""

    def __init__(self, root: Path) -> None:
        self._workspace = Workspace(root, workers=1)
        self.alive = True

    def start(self) -> None:
        pass

    def call(self, word: str = "go") -> None:
        pass

    def stop(self) -> None:
        self._workspace.close()

    def work(self) -> list[int]:
        return self._workspace.carry_out()


class Running:
    """A running service, and a client that knows it."""

    def __init__(self, root: Path, app: FastAPI, hands: ByHand, base: str) -> None:
        self.root, self.app, self.hands, self.base = root, app, hands, base
        self.client = httpx.Client(base_url=base, timeout=30)

    def __call__(self, method: str, path: str, token: str | None = None, **options: object) -> httpx.Response:
        headers = {**options.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        return self.client.request(method, path, headers=headers, **options)

    def in_step(self) -> None:
        """Wait until the service has noticed what `work` did."""
        self.app.state.office.sync()

    def work(self) -> list[int]:
        done = self.hands.work()
        self.in_step()
        return done


@contextmanager
def running(root: Path, until: str = "/ready") -> Iterator[Running]:
    """Serve a workspace on a free port of loopback, once `until` answers well."""
    hands = ByHand(root)
    app = create_app(root, hands)
    listener = listening("127.0.0.1", 0)
    listener.listen()  # so that a call which comes too early waits
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = Server(config, app.state.ending)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    service = Running(root, app, hands, f"http://127.0.0.1:{listener.getsockname()[1]}")
    while service("GET", until).status_code != 200 and thread.is_alive():
        time.sleep(0.02)
    yield service
    service.client.close()
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served") / "ws"
    with Workspace.create(root, seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(BySource(), QUICK)
    return root


@pytest.fixture
def root(_trained: Path, fast_path: Path) -> Path:
    """A trained workspace of one's own."""
    return Path(shutil.copytree(_trained, fast_path / "ws"))


@pytest.fixture
def service(root: Path) -> Iterator[Running]:
    """A running service without tokens: whoever reaches it is the operator."""
    with running(root) as found:
        yield found


@pytest.fixture
def tokens(root: Path) -> dict[str, str]:
    """A token of every role; the owner's source is ann."""
    with Workspace(root) as workspace:
        return {
            role: create_token(workspace.catalogue, f"the-{role}", role, ("ann",) if role == "owner" else ())
            for role in ROLES
        }
