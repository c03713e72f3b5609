"""Trained workspaces."""

from collections.abc import Callable, Iterable

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource, Topology
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.recipe import Recipe
from tests.strategies import LABELS, QUICK, ROWS, Row, embed


@pytest.fixture
def trained(create: Callable[..., Workspace]) -> Callable[..., Workspace]:
    """Makes trained workspaces of some rows; `options` are those of `create`."""

    def make(
        topology: Topology,
        rows: Iterable[Row] = ROWS,
        name: str = "ws",
        recipe: Recipe = QUICK,
        privacy: PrivacyTerms | None = None,
        **options: object,
    ) -> Workspace:
        workspace = create(name, **{"classes": LABELS, **options})
        workspace.add(embed(rows))
        workspace.train(topology, recipe, privacy=privacy)
        return workspace

    return make


@pytest.fixture
def workspace(request: pytest.FixtureRequest, trained: Callable[..., Workspace]) -> Workspace:
    """A workspace with one shard for each source, trained on the ROWS of the test's module."""
    return trained(BySource(), request.module.ROWS)
