"""Workspaces with private edges."""

from collections.abc import Callable, Iterable

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Topology
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from tests.strategies import CLIQUE, LINEAR, ROWS, TERMS, Row


@pytest.fixture
def private(trained: Callable[..., Workspace]) -> Callable[..., Workspace]:
    """Makes workspaces that are trained with private edges."""

    def make(
        topology: Topology = CLIQUE, terms: PrivacyTerms = TERMS, rows: Iterable[Row] = ROWS, **options: object
    ) -> Workspace:
        return trained(topology, rows, recipe=LINEAR, privacy=terms, **options)

    return make
