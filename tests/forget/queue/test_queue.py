"""The queue: what waits is withheld, what shares groups is rebuilt once, and what was begun is finished once."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from shardgraph.errors import InputError, UnknownSample, VerificationError, WorkspaceError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Submission, group_requests
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from tests.strategies import embed, many, never_saw, promised_files

ROWS = [*many(24), *many(4, split="test")]
BY_SOURCE = {name: [row for row in ROWS[:24] if row.source == name] for name in ("ann", "bob", "web")}


@pytest.fixture
def trained(trained):
    return trained(BySource(), ROWS)


def ask(workspace, *ids, **options):
    return workspace.queue.submit(Submission(ForgetRequest(samples=tuple(ids)), **options)).number


def states(workspace, number):
    return [state for state, _ in workspace.queue.find(number).history]


def test_what_waits_is_not_served_and_comes_back_when_it_is_cancelled(trained):
    before = trained.model()
    number = ask(trained, ROWS[0].id)
    held = trained.model()
    assert held.digest != before.digest
    assert len(held.average) < len(before.average), "adapters are out of service"
    with Workspace(trained.root) as other:
        assert other.model().digest == held.digest, "also in a process that starts now"
    assert trained.queue.cancel(number).state == queue.CANCELLED
    assert trained.model().digest == before.digest
    assert states(trained, number) == ["received", "cancelled"]


def test_the_withheld_model_is_that_of_an_instant_forget(trained, fast_path):
    ids = (BY_SOURCE["ann"][0].id, BY_SOURCE["ann"][1].id)
    ask(trained, *ids)
    held = trained.model()
    trained.queue.cancel(1)
    trained.forget(ForgetRequest(samples=ids), instant=True)
    gone = trained.model()
    assert held.digest == gone.digest
    queries = embed(ROWS[24:])
    assert np.array_equal(held.scores(queries), gone.scores(queries))


def test_a_class_whose_last_samples_wait_is_not_predicted(trained):
    trained.queue.submit(Submission(ForgetRequest(labels=("bee",))))
    assert "bee" not in trained.model().classes


def test_a_batch_leaves_the_bytes_of_a_life_without_it(trained, fast_path):
    gone = [ROWS[0].id, ROWS[7].id, ROWS[25].id]
    numbers = [ask(trained, sample) for sample in gone]
    while trained.queue.withhold() or trained.queue.carry_out():
        pass
    expected = never_saw(trained, [row for row in ROWS if row.id not in gone], fast_path / "never")
    assert promised_files(trained.root) == expected
    for number in numbers:
        whole = ["received", "instant", "erasing", "retraining", "verified", "done"]
        assert states(trained, number) == whole
        assert trained.queue.find(number).certificate
    assert trained.verify(full=True).ok
    assert trained.context.catalogue.all("SELECT * FROM withheld") == []
    assert {wish for (wish,) in trained.context.catalogue.all("SELECT wish FROM requests")} == {"{}"}


def test_requests_for_the_same_groups_are_rebuilt_once(trained):
    numbers = [ask(trained, row.id) for row in BY_SOURCE["ann"][:3]]
    other = ask(trained, BY_SOURCE["bob"][0].id)
    trained.queue.withhold()
    assert trained.queue.carry_out() == numbers
    assert {trained.queue.find(n).certificate for n in numbers} == {1}
    assert trained.queue.find(other).state == queue.INSTANT
    assert trained.queue.carry_out() == [other]
    assert trained.queue.carry_out() == []


def test_deadlines_go_first(trained):
    late = ask(trained, BY_SOURCE["ann"][0].id)
    soon = ask(trained, BY_SOURCE["bob"][0].id, deadline=datetime.now(UTC) + timedelta(hours=1))
    trained.queue.withhold()
    assert trained.queue.carry_out() == [soon]
    assert trained.queue.carry_out() == [late]


def test_together_is_closed_under_sharing():
    touched = {1: {"a"}, 2: {"b", "c"}, 3: {"c", "a"}, 4: {"d"}}
    assert sorted(group_requests(1, touched)) == [1, 2, 3]
    assert group_requests(4, touched) == [4]


def test_a_request_can_wait_for_its_grace_unless_its_deadline_is_nearer(trained):
    ask(trained, BY_SOURCE["ann"][0].id)
    trained.queue.withhold()
    assert trained.queue.carry_out(grace=3600) == []
    urgent = ask(trained, BY_SOURCE["bob"][0].id, deadline=datetime.now(UTC) + timedelta(minutes=1))
    trained.queue.withhold()
    assert trained.queue.carry_out(grace=3600) == [urgent]


def test_a_request_from_before_the_clock_was_set_back_is_due(trained, monkeypatch):
    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(queue, "datetime", Ahead)
    number = ask(trained, BY_SOURCE["ann"][0].id)
    monkeypatch.undo()
    trained.queue.withhold()
    assert trained.queue.carry_out(grace=60) == [number]
    assert trained.queue.find(number).state == queue.DONE


def test_a_damaged_file_fails_its_own_request_and_no_other(trained):
    bad = ask(trained, BY_SOURCE["ann"][0].id)
    good = ask(trained, BY_SOURCE["bob"][0].id)
    trained.queue.withhold()
    path = trained.context.store.path("shard:ann")
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert trained.queue.carry_out() == []
    assert trained.queue.find(bad).state == queue.FAILED and "torn" in trained.queue.find(bad).failure
    assert "ann" not in trained.queue.find(bad).failure, "it stays when the name is gone"
    assert trained.queue.carry_out() == [good]
    assert trained.queue.find(good).state == queue.DONE
    path.write_bytes(raw)
    assert trained.context.catalogue.all("SELECT id FROM withheld") == [(BY_SOURCE["ann"][0].id,)], (
        "what failed stays withheld"
    )
    trained.queue.retry(bad)
    trained.queue.withhold()
    assert trained.queue.carry_out() == [bad]
    assert trained.queue.find(bad).state == queue.DONE and trained.verify().ok


def test_what_is_erased_but_not_verified_fails_and_can_be_tried_again(trained):
    number = ask(trained, BY_SOURCE["ann"][0].id)
    trained.queue.withhold()
    models = sorted((trained.root / "models").rglob("*.safetensors"))
    raw = {path: path.read_bytes() for path in models}
    for path in models:
        path.write_bytes(b"spoiled")
    with pytest.raises(VerificationError):
        trained.queue.carry_out()
    entry = trained.queue.find(number)
    assert entry.state == queue.FAILED and "not verified" in entry.failure and entry.certificate is None
    assert trained.queue.carry_out() == [], "and nothing waits for it"
    for path, content in raw.items():
        if path.exists() and path.read_bytes() == b"spoiled":
            path.write_bytes(content)
    trained.queue.retry(number)
    trained.queue.carry_out()
    assert trained.queue.find(number).state == queue.DONE and trained.verify(full=True).ok


def test_the_same_key_is_the_same_request_and_another_body_is_refused(trained):
    first = trained.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,)), key="k", body="b"))
    again = trained.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,)), key="k", body="b"))
    assert first.number == again.number
    with pytest.raises(WorkspaceError, match="Idempotency-Key"):
        trained.queue.submit(Submission(ForgetRequest(samples=(ROWS[1].id,)), key="k", body="c"))
    assert len(queue.listed(trained.context.catalogue)) == 1


def test_what_is_forgotten_already_is_done_at_once_and_what_never_was_is_refused(trained):
    trained.forget(ForgetRequest(samples=(ROWS[0].id,)))
    entry = trained.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert (entry.state, entry.certificate) == ("done", 1)
    with pytest.raises(UnknownSample):
        ask(trained, "nobody")


def test_a_request_for_what_is_just_leaving_rides_along(trained):
    source = BY_SOURCE["ann"]
    number = trained.queue.submit(Submission(ForgetRequest(sources=("ann",)))).number
    trained.queue.withhold()
    bench = trained.context
    request = execute.accept(bench, trained.queue._plan([number]), False, [number])
    riders = [ask(trained, source[0].id), trained.queue.submit(Submission(ForgetRequest(sources=("ann",)))).number]
    assert [trained.queue.find(n).erasure for n in riders] == [request, request]
    execute.finish(bench, request)
    assert [trained.queue.find(n).state for n in (number, *riders)] == ["done"] * 3
    assert {trained.queue.find(n).certificate for n in (number, *riders)} == {1}


def test_erasing_cannot_be_cancelled(trained):
    number = ask(trained, ROWS[0].id)
    trained.queue.withhold()
    trained.queue.carry_out()
    with pytest.raises(WorkspaceError, match="until erasing starts"):
        trained.queue.cancel(number)
    with pytest.raises(InputError, match="no request 99"):
        trained.queue.cancel(99)


def test_while_a_service_runs_a_forget_goes_through_the_queue(trained):
    with Workspace(trained.root, workers=1) as service, service.context.serving_lock():
        assert trained.context.is_served
        entry = trained.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert not trained.context.is_served
    certificate = trained.queue.wait_for(entry.number)
    assert certificate.number == 1 and trained.queue.find(entry.number).state == "done"


def test_what_a_direct_forget_took_meanwhile_is_done(trained):
    number = ask(trained, ROWS[0].id)
    trained.forget(ForgetRequest(samples=(ROWS[0].id,)))
    trained.queue.withhold()
    trained.queue.carry_out()
    assert (trained.queue.find(number).state, trained.queue.find(number).certificate) == ("done", 1)
