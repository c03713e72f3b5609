"""What many tests share: rows of three sources, and workspaces trained on some of them."""

from collections.abc import Callable, Iterable

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Topology
from shardgraph.learn.recipe import Recipe
from tests.strategies import LABELS, QUICK, Row, embed, many

ROWS = [*many(24), *many(6, split="test")]


def of(*sources: str, rows: Iterable[Row] = ROWS) -> list[Row]:
    """The rows of some sources."""
    return [row for row in rows if row.source in sources]


@pytest.fixture
def trained(create: Callable[..., Workspace]) -> Callable[..., Workspace]:
    """Makes trained workspaces of some rows."""

    def make(topology: Topology, rows: Iterable[Row] = ROWS, name: str = "ws", recipe: Recipe = QUICK) -> Workspace:
        workspace = create(name, classes=LABELS)
        workspace.add(embed(rows))
        workspace.train(topology, recipe)
        return workspace

    return make
