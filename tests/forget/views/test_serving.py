"""What may be served, while another process is at work."""

import pytest

from shardgraph.errors import WorkspaceBusy
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.views.served import Shelf, served_key, served_model
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from tests.strategies import many

ROWS = many(24)


@pytest.fixture
def trained(trained):
    return trained(BySource(), ROWS)


class Interrupted(Shelf):
    """A shelf on which something happens between looking at the catalogue and reading samples."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def prototypes(self, root, expected):
        whole = super().prototypes(root, expected)
        self.meanwhile()
        return whole


def test_withheld_samples_that_are_erased_meanwhile_are_not_taken_for_subtracted(trained):
    trained.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    with Workspace(trained.root) as other:

        def carry_out():
            other.withhold()
            other.carry_out()

        with pytest.raises(WorkspaceBusy, match="being erased"):
            served_model(trained.store, trained.config, Interrupted(carry_out), "cpu")
    assert trained.model().digest == Workspace(trained.root).model().digest


def test_a_model_has_the_key_of_what_it_was_made_from_whatever_came_in_meanwhile(trained):
    def ask():
        trained.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))

    before = served_key(trained.store)
    key, model = served_model(trained.store, trained.config, Interrupted(ask), "cpu")
    assert key == before != served_key(trained.store)
    assert trained.model().digest != model.digest, "and who asks again gets what may be served now"
