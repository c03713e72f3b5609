"""What may be served, while another process is at work."""

import pytest

from shardgraph.errors import WorkspaceBusy
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.views.served import LoadedParts, assemble_served, served_key
from shardgraph.forget.workspace import Workspace
from tests.strategies import ROWS


class Interrupted(LoadedParts):
    """Something happens between its reading of the catalogue and its reading of samples."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def prototypes(self, root, expected):
        whole = super().prototypes(root, expected)
        self.meanwhile()
        return whole


def test_withheld_samples_that_are_erased_meanwhile_are_not_taken_for_subtracted(workspace):
    workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    with Workspace(workspace.root) as other:

        def carry_out():
            other.queue.withhold()
            other.queue.carry_out()

        with pytest.raises(WorkspaceBusy, match="being erased"):
            assemble_served(workspace.context.store, workspace.config, Interrupted(carry_out), "cpu")
    assert workspace.model().digest == Workspace(workspace.root).model().digest


def test_a_model_has_the_key_of_what_it_was_made_from_whatever_came_in_meanwhile(workspace):
    def ask():
        workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))

    before = served_key(workspace.context.store)
    key, model = assemble_served(workspace.context.store, workspace.config, Interrupted(ask), "cpu")
    assert key == before != served_key(workspace.context.store)
    assert workspace.model().digest != model.digest, "and who asks again gets what may be served now"
