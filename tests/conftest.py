"""What every room's tests share: how hypothesis runs, and a place for workspaces."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from shardgraph.storage.catalogue import Catalogue

os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports triton: the GPU's kernels run on the CPU here

# No deadline: the machine may be busy, and a slow example is no wrong one. Training makes examples slow by nature.
settings.register_profile(
    "house", deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


@pytest.fixture
def fast_path() -> Iterator[Path]:
    """A temporary folder in memory where the system has one: tests that interrupt a hundred times sync thousands."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="shardgraph-", dir=memory if os.access(memory, os.W_OK) else None)
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def root(fast_path: Path) -> Path:
    """A folder with a scratch folder, as `storage` knows a workspace."""
    folder = fast_path / "root"
    (folder / "scratch").mkdir(parents=True)
    return folder


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    """An empty catalogue."""
    opened = Catalogue(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def other_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another version of torch than the one that models were built with."""
    import torch  # here, so that the tests of other rooms need no torch

    from shardgraph.learn.numerics import _facts

    monkeypatch.setattr(torch, "__version__", "99.0")
    _facts.cache_clear()
    yield
    monkeypatch.undo()
    _facts.cache_clear()


@pytest.fixture
def create(fast_path: Path) -> Iterator[Callable]:
    """Makes workspaces below a temporary folder, and closes them."""
    from shardgraph.forget.workspace import Workspace  # here, so that the tests of other rooms need no torch

    made: list[Workspace] = []

    def make(name: str = "ws", **options: object) -> Workspace:
        made.append(Workspace.create(fast_path / name, **{"seed": 0, "workers": 1, **options}))
        return made[-1]

    yield make
    for workspace in made:
        workspace.close()
