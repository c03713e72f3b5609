"""The pages of a workspace with private edges: they promise what its certificates state, and nothing more."""

import pytest

from shardgraph.forget.workspace import Workspace
from tests.service.pages.conftest import forget, preview
from tests.strategies import BY_SOURCE, CLIQUE, LABELS, LINEAR, ROWS, TERMS, embed

ANN = BY_SOURCE["ann"][0].id


@pytest.fixture
def root(fast_path):
    """A workspace whose every edge is private."""
    with Workspace.create(fast_path / "ws", seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(CLIQUE, LINEAR, privacy=TERMS)
    return fast_path / "ws"


def test_the_proof_states_the_certificates_own_guarantee(service, visit):
    me = visit()
    forget(me, "sample", ANN)
    service.work()
    page, certificate = me.get("/pages/proof/1").text, me.get("/pages/proof/1/certificate.json").json()
    assert certificate["privacy"]["removed"] == 1
    assert "equals, byte for byte, a model built" not in page and "must get this digest" not in page
    assert f'<span id="guarantee">{certificate["guarantee"]}.' in page
    assert "which guarantees nothing" in page, "beta may be 1 under this budget"


def test_a_request_does_not_say_that_private_readers_leave_service(visit):
    me = visit()
    page = me.get(forget(me, "sample", ANN).headers["location"]).text
    assert "Nothing that saw the data" not in page
    assert "Groups that read it privately stay in use, within their budget." in page


def test_the_preview_shows_what_is_spent(visit):
    page = preview(visit(), "sample", ANN).text
    assert "groups that read it privately and stay in service</span><strong>2<" in page
    assert "(0, 0) → (" in page and "of (30, 1)" in page
