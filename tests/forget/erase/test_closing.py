"""The end of a forget: marks of all that was emptied, no terms of a source that is gone, a clean catalogue."""

import pytest

from shardgraph.errors import WorkspaceBusy, WorkspaceError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.views.served import LoadedParts, assemble_served
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import inventory, requests
from tests.strategies import Row, all_bytes, many

DANS = [Row("dans-first", "ant", "dan", "dora"), Row("dans-second", "bee", "dan", "dora")]
ROWS = [*many(18), *DANS]


def test_a_source_that_left_sample_by_sample_is_known_as_forgotten(workspace):
    for row in DANS:
        last = workspace.forget(ForgetRequest(samples=(row.id,)))
    for named in ({"sources": ("dan",)}, {"subjects": ("dora",)}, {"shards": ("dan",)}):
        plan = workspace.plan(ForgetRequest(**named))
        assert (plan.rows, plan.already) == ((), (last.number,)), named
        assert workspace.forget(ForgetRequest(**named)) == last


def test_the_terms_of_a_source_leave_with_its_last_sample_however_it_was_named(workspace):
    workspace.sources.describe("dan", owner="Daniel Doe", terms="until 2031")
    workspace.forget(ForgetRequest(samples=("dans-first",)))
    assert workspace.sources.terms()["dan"].owner == "Daniel Doe"
    workspace.forget(ForgetRequest(samples=("dans-second",)))
    assert "dan" not in workspace.sources.terms()
    raw = b"".join(all_bytes(workspace.root).values())
    assert b"Daniel Doe" not in raw and b"until 2031" not in raw


def test_a_catalogue_that_was_not_scrubbed_knows_it_and_is_scrubbed_later(workspace):
    """A reader keeps the log from being emptied at the end of the forget."""
    with Workspace(workspace.root) as other, other.context.catalogue.reading():
        inventory.all_ids(other.context.catalogue)
        with pytest.raises(WorkspaceBusy, match="log could not be emptied"):
            workspace.forget(ForgetRequest(samples=("dans-first",)))
        assert workspace.context.catalogue.dirty
    workspace.resume()
    assert not workspace.context.catalogue.dirty
    assert not [name for name, raw in all_bytes(workspace.root).items() if b"dans-first" in raw]


def test_nothing_is_served_between_the_acceptance_and_the_withdrawal(workspace):
    execute.accept(workspace.context, workspace.plan(ForgetRequest(samples=("dans-first",))), False)
    with Workspace(workspace.root) as other, pytest.raises(WorkspaceBusy, match="being moved or withdrawn"):
        assemble_served(other.context.store, other.config, LoadedParts(), "cpu")
    workspace.resume()
    with Workspace(workspace.root) as other:
        assert (
            assemble_served(other.context.store, other.config, LoadedParts(), "cpu")[1].digest
            == workspace.model().digest
        )


def test_what_is_erased_cannot_be_taken_back_though_it_failed(workspace):
    number = workspace.queue.submit(Submission(ForgetRequest(samples=("dans-first",)))).number
    workspace.queue.withhold()
    request = execute.accept(workspace.context, workspace.queue._plan([number]), False, [number])
    with workspace.context.catalogue.transaction() as db:
        queue.fail(db, [number], "erased, but not verified")
    with pytest.raises(WorkspaceError, match="until erasing starts"):
        workspace.queue.cancel(number)
    entry = workspace.queue.find(number)
    assert (entry.state, entry.erasure) == ("failed", request)


@pytest.mark.parametrize("count", [1, 60])
def test_after_a_cancel_no_file_holds_what_only_the_request_named(workspace, count):
    """Each names a sample that is here, and one that was forgotten before and stands nowhere else."""
    workspace.forget(ForgetRequest(samples=("dans-first",)))
    assert not [name for name, raw in all_bytes(workspace.root).items() if b"dans-first" in raw]
    asked = ForgetRequest(samples=("dans-first", "dans-second"))
    numbers = [workspace.queue.submit(Submission(asked)).number for _ in range(count)]
    assert any(b"dans-first" in raw for raw in all_bytes(workspace.root).values()), "the search works"
    for number in numbers:
        workspace.queue.cancel(number)
    assert not [name for name, raw in all_bytes(workspace.root).items() if b"dans-first" in raw]
    assert requests.withheld_ids(workspace.context.catalogue) == set()
    assert workspace.context.catalogue.all("SELECT * FROM request_marks") == []
    assert {requests.find_wish(workspace.context.catalogue, number)[0] for number in numbers} == {"{}"}
