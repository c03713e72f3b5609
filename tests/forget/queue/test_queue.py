"""The queue: what waits is withheld, what shares groups is rebuilt once, and what was begun is finished once."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from shardgraph.errors import InputError, UnknownSample, VerificationError, WorkspaceError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.batch import together
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from tests.strategies import embed, many, never_saw, promised_files

ROWS = [*many(24), *many(4, split="test")]
BY_SOURCE = {name: [row for row in ROWS[:24] if row.source == name] for name in ("ann", "bob", "web")}


@pytest.fixture
def trained(trained):
    return trained(BySource(), ROWS)


def ask(workspace, *ids, **options):
    return workspace.submit(Submission(ForgetRequest(samples=tuple(ids)), **options)).number


def states(workspace, number):
    return [state for state, _ in workspace.request(number).history]


def test_what_waits_is_not_served_and_comes_back_when_it_is_cancelled(trained):
    before = trained.model()
    number = ask(trained, ROWS[0].id)
    held = trained.model()
    assert held.digest != before.digest
    assert len(held.average) < len(before.average), "adapters are out of service"
    with Workspace(trained.root) as other:
        assert other.model().digest == held.digest, "also in a process that starts now"
    assert trained.cancel(number).state == queue.CANCELLED
    assert trained.model().digest == before.digest
    assert states(trained, number) == ["received", "cancelled"]


def test_the_withheld_model_is_that_of_an_instant_forget(trained, fast_path):
    ids = (BY_SOURCE["ann"][0].id, BY_SOURCE["ann"][1].id)
    ask(trained, *ids)
    held = trained.model()
    trained.cancel(1)
    trained.forget(ForgetRequest(samples=ids), instant=True)
    gone = trained.model()
    assert held.digest == gone.digest
    queries = embed(ROWS[24:])
    assert np.array_equal(held.scores(queries), gone.scores(queries))


def test_a_class_whose_last_samples_wait_is_not_predicted(trained):
    trained.submit(Submission(ForgetRequest(labels=("bee",))))
    assert "bee" not in trained.model().classes


def test_a_batch_leaves_the_bytes_of_a_life_without_it(trained, fast_path):
    gone = [ROWS[0].id, ROWS[7].id, ROWS[25].id]
    numbers = [ask(trained, sample) for sample in gone]
    while trained.withhold() or trained.carry_out():
        pass
    expected = never_saw(trained, [row for row in ROWS if row.id not in gone], fast_path / "never")
    assert promised_files(trained.root) == expected
    for number in numbers:
        whole = ["received", "instant", "erasing", "retraining", "verified", "done"]
        assert states(trained, number) == whole
        assert trained.request(number).certificate
    assert trained.verify(full=True).ok
    assert trained.catalogue.all("SELECT * FROM withheld") == []
    assert {wish for (wish,) in trained.catalogue.all("SELECT wish FROM queue")} == {"{}"}


def test_requests_for_the_same_groups_are_rebuilt_once(trained):
    numbers = [ask(trained, row.id) for row in BY_SOURCE["ann"][:3]]
    other = ask(trained, BY_SOURCE["bob"][0].id)
    trained.withhold()
    assert trained.carry_out() == numbers
    assert {trained.request(n).certificate for n in numbers} == {1}
    assert trained.request(other).state == queue.INSTANT
    assert trained.carry_out() == [other]
    assert trained.carry_out() == []


def test_deadlines_go_first(trained):
    late = ask(trained, BY_SOURCE["ann"][0].id)
    soon = ask(trained, BY_SOURCE["bob"][0].id, deadline=datetime.now(UTC) + timedelta(hours=1))
    trained.withhold()
    assert trained.carry_out() == [soon]
    assert trained.carry_out() == [late]


def test_together_is_closed_under_sharing():
    touched = {1: {"a"}, 2: {"b", "c"}, 3: {"c", "a"}, 4: {"d"}}
    assert sorted(together(1, touched)) == [1, 2, 3]
    assert together(4, touched) == [4]


def test_a_request_can_wait_for_its_grace_unless_its_deadline_is_nearer(trained):
    ask(trained, BY_SOURCE["ann"][0].id)
    trained.withhold()
    assert trained.carry_out(grace=3600) == []
    urgent = ask(trained, BY_SOURCE["bob"][0].id, deadline=datetime.now(UTC) + timedelta(minutes=1))
    trained.withhold()
    assert trained.carry_out(grace=3600) == [urgent]


def test_a_request_from_before_the_clock_was_set_back_is_due(trained, monkeypatch):
    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(queue, "datetime", Ahead)
    number = ask(trained, BY_SOURCE["ann"][0].id)
    monkeypatch.undo()
    trained.withhold()
    assert trained.carry_out(grace=60) == [number]
    assert trained.request(number).state == queue.DONE


def test_a_damaged_file_fails_its_own_request_and_no_other(trained):
    bad = ask(trained, BY_SOURCE["ann"][0].id)
    good = ask(trained, BY_SOURCE["bob"][0].id)
    trained.withhold()
    path = trained.store.path("shard:ann")
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert trained.carry_out() == []
    assert trained.request(bad).state == queue.FAILED and "torn" in trained.request(bad).failure
    assert "ann" not in trained.request(bad).failure, "it stays when the name is gone"
    assert trained.carry_out() == [good]
    assert trained.request(good).state == queue.DONE
    path.write_bytes(raw)
    assert trained.catalogue.all("SELECT id FROM withheld") == [(BY_SOURCE["ann"][0].id,)], "what failed stays withheld"
    trained.retry(bad)
    trained.withhold()
    assert trained.carry_out() == [bad]
    assert trained.request(bad).state == queue.DONE and trained.verify().ok


def test_what_is_erased_but_not_verified_fails_and_can_be_tried_again(trained):
    number = ask(trained, BY_SOURCE["ann"][0].id)
    trained.withhold()
    models = sorted((trained.root / "models").rglob("*.safetensors"))
    raw = {path: path.read_bytes() for path in models}
    for path in models:
        path.write_bytes(b"spoiled")
    with pytest.raises(VerificationError):
        trained.carry_out()
    entry = trained.request(number)
    assert entry.state == queue.FAILED and "not verified" in entry.failure and entry.certificate is None
    assert trained.carry_out() == [], "and nothing waits for it"
    for path, content in raw.items():
        if path.exists() and path.read_bytes() == b"spoiled":
            path.write_bytes(content)
    trained.retry(number)
    trained.carry_out()
    assert trained.request(number).state == queue.DONE and trained.verify(full=True).ok


def test_the_same_key_is_the_same_request_and_another_body_is_refused(trained):
    first = trained.submit(Submission(ForgetRequest(samples=(ROWS[0].id,)), key="k", body="b"))
    again = trained.submit(Submission(ForgetRequest(samples=(ROWS[0].id,)), key="k", body="b"))
    assert first.number == again.number
    with pytest.raises(WorkspaceError, match="Idempotency-Key"):
        trained.submit(Submission(ForgetRequest(samples=(ROWS[1].id,)), key="k", body="c"))
    assert len(queue.listed(trained.catalogue)) == 1


def test_what_is_forgotten_already_is_done_at_once_and_what_never_was_is_refused(trained):
    trained.forget(ForgetRequest(samples=(ROWS[0].id,)))
    entry = trained.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert (entry.state, entry.certificate) == ("done", 1)
    with pytest.raises(UnknownSample):
        ask(trained, "nobody")


def test_a_request_for_what_is_just_leaving_rides_along(trained):
    source = BY_SOURCE["ann"]
    number = trained.submit(Submission(ForgetRequest(sources=("ann",)))).number
    trained.withhold()
    bench = trained._bench()
    request = execute.accept(bench, trained._orders([number]), False, [number])
    riders = [ask(trained, source[0].id), trained.submit(Submission(ForgetRequest(sources=("ann",)))).number]
    assert [trained.request(n).request for n in riders] == [request, request]
    execute.finish(bench, request)
    assert [trained.request(n).state for n in (number, *riders)] == ["done"] * 3
    assert {trained.request(n).certificate for n in (number, *riders)} == {1}


def test_erasing_cannot_be_cancelled(trained):
    number = ask(trained, ROWS[0].id)
    trained.withhold()
    trained.carry_out()
    with pytest.raises(WorkspaceError, match="until erasing starts"):
        trained.cancel(number)
    with pytest.raises(InputError, match="no request 99"):
        trained.cancel(99)


def test_while_a_service_runs_a_forget_goes_through_the_queue(trained):
    with Workspace(trained.root, workers=1) as service, service.serving_lock():
        assert trained.served
        entry = trained.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert not trained.served
    certificate = trained.wait_for(entry.number)
    assert certificate.number == 1 and trained.request(entry.number).state == "done"


def test_what_a_direct_forget_took_meanwhile_is_done(trained):
    number = ask(trained, ROWS[0].id)
    trained.forget(ForgetRequest(samples=(ROWS[0].id,)))
    trained.withhold()
    trained.carry_out()
    assert (trained.request(number).state, trained.request(number).certificate) == ("done", 1)
