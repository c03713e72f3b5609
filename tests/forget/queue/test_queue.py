"""The queue: what waits is withheld, what shares groups is rebuilt once, and what was begun is finished once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from shardgraph.errors import InputError, UnknownSample, VerificationError, WorkspaceError
from shardgraph.forget.build.wanted import group_path
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Submission, group_requests
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import requests
from tests.strategies import BY_SOURCE, ROWS, embed, never_saw, promised_files


def ask(workspace, *ids, **options):
    return workspace.queue.submit(Submission(ForgetRequest(samples=tuple(ids)), **options)).number


def flip(path):
    """Change one bit of a file."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def states(workspace, number):
    return [state for state, _ in workspace.queue.find(number).history]


def test_what_waits_is_not_served_and_comes_back_when_it_is_cancelled(workspace):
    before = workspace.model()
    number = ask(workspace, ROWS[0].id)
    held = workspace.model()
    assert held.digest != before.digest
    assert len(held.average) < len(before.average), "adapters are out of service"
    with Workspace(workspace.root) as other:
        assert other.model().digest == held.digest, "also in a process that starts now"
    assert workspace.queue.cancel(number).state == queue.CANCELLED
    assert workspace.model().digest == before.digest
    assert states(workspace, number) == ["received", "cancelled"]


def test_the_withheld_model_is_that_of_an_instant_forget(workspace, fast_path):
    ids = (BY_SOURCE["ann"][0].id, BY_SOURCE["ann"][1].id)
    ask(workspace, *ids)
    held = workspace.model()
    workspace.queue.cancel(1)
    workspace.forget(ForgetRequest(samples=ids), instant=True)
    gone = workspace.model()
    assert held.digest == gone.digest
    queries = embed(ROWS[24:])
    assert np.array_equal(held.scores(queries), gone.scores(queries))


def test_a_class_whose_last_samples_wait_is_not_predicted(workspace):
    workspace.queue.submit(Submission(ForgetRequest(labels=("bee",))))
    assert "bee" not in workspace.model().classes


def test_a_batch_leaves_the_bytes_of_a_life_without_it(workspace, fast_path):
    gone = [ROWS[0].id, ROWS[7].id, ROWS[25].id]
    numbers = [ask(workspace, sample) for sample in gone]
    while workspace.queue.withhold() or workspace.queue.carry_out():
        pass
    expected = never_saw(workspace, [row for row in ROWS if row.id not in gone], fast_path / "never")
    assert promised_files(workspace.root) == expected
    for number in numbers:
        whole = ["received", "instant", "erasing", "retraining", "verified", "done"]
        assert states(workspace, number) == whole
        assert workspace.queue.find(number).certificate
    assert workspace.verify(full=True).ok
    assert requests.withheld_ids(workspace.context.catalogue) == set()
    assert {requests.find_wish(workspace.context.catalogue, number)[0] for number in numbers} == {"{}"}


def test_requests_for_the_same_groups_are_rebuilt_once(workspace):
    numbers = [ask(workspace, row.id) for row in BY_SOURCE["ann"][:3]]
    other = ask(workspace, BY_SOURCE["bob"][0].id)
    workspace.queue.withhold()
    assert workspace.queue.carry_out() == numbers
    assert {workspace.queue.find(n).certificate for n in numbers} == {1}
    assert workspace.queue.find(other).state == queue.INSTANT
    assert workspace.queue.carry_out() == [other]
    assert workspace.queue.carry_out() == []


def test_deadlines_go_first(workspace):
    late = ask(workspace, BY_SOURCE["ann"][0].id)
    soon = ask(workspace, BY_SOURCE["bob"][0].id, deadline=datetime.now(UTC) + timedelta(hours=1))
    workspace.queue.withhold()
    assert workspace.queue.carry_out() == [soon]
    assert workspace.queue.carry_out() == [late]


def test_together_is_closed_under_sharing():
    touched = {1: {"a"}, 2: {"b", "c"}, 3: {"c", "a"}, 4: {"d"}}
    assert sorted(group_requests(1, touched)) == [1, 2, 3]
    assert group_requests(4, touched) == [4]


def test_a_request_can_wait_for_its_grace_unless_its_deadline_is_nearer(workspace):
    ask(workspace, BY_SOURCE["ann"][0].id)
    workspace.queue.withhold()
    assert workspace.queue.carry_out(grace=3600) == []
    urgent = ask(workspace, BY_SOURCE["bob"][0].id, deadline=datetime.now(UTC) + timedelta(minutes=1))
    workspace.queue.withhold()
    assert workspace.queue.carry_out(grace=3600) == [urgent]


class Clock:
    """A workspace's clocks: the one that can be set, and the one that only goes on."""

    def __init__(self, workspace, ahead=timedelta()):
        self.time, self.seconds = datetime.now(UTC) + ahead, 1000.0
        workspace.context.now, workspace.context.monotonic = lambda: self.time, lambda: self.seconds

    def go_on(self, seconds):
        self.time, self.seconds = self.time + timedelta(seconds=seconds), self.seconds + seconds

    def set(self, by):
        self.time += by


@pytest.mark.parametrize("by", [timedelta(days=-1), timedelta(seconds=-50), timedelta(seconds=50), timedelta(days=1)])
def test_setting_the_clock_makes_no_grace_period_shorter_or_longer(workspace, by):
    clock = Clock(workspace)
    number = ask(workspace, BY_SOURCE["ann"][0].id)
    clock.set(by)
    workspace.queue.withhold()
    assert workspace.queue.carry_out(grace=60) == []
    clock.go_on(30)
    clock.set(by)
    assert workspace.queue.carry_out(grace=60) == []
    clock.go_on(29)
    assert workspace.queue.carry_out(grace=60) == []
    clock.go_on(1)
    assert workspace.queue.carry_out(grace=60) == [number]
    assert workspace.queue.find(number).state == queue.DONE


def test_a_process_that_starts_after_the_clock_was_set_back_gives_a_request_its_whole_grace_period(workspace):
    Clock(workspace, timedelta(days=1))
    number = ask(workspace, BY_SOURCE["ann"][0].id)
    workspace.queue.withhold()
    with Workspace(workspace.root, workers=1) as worker:
        clock = Clock(worker)
        assert worker.queue.carry_out(grace=60) == [], "it was received tomorrow, so it counts as received now"
        clock.go_on(59)
        assert worker.queue.carry_out(grace=60) == []
        clock.go_on(1)
        assert worker.queue.carry_out(grace=60) == [number]


def test_a_process_that_starts_later_counts_the_time_before(workspace):
    clock = Clock(workspace)
    number = ask(workspace, BY_SOURCE["ann"][0].id)
    workspace.queue.withhold()
    with Workspace(workspace.root, workers=1) as worker:
        Clock(worker).time = clock.time + timedelta(seconds=60)
        assert worker.queue.carry_out(grace=60) == [number]


def test_a_deadline_wins_whatever_the_clock_was_set_to(workspace):
    clock = Clock(workspace)
    deadline = clock.time + timedelta(hours=2)
    number = ask(workspace, BY_SOURCE["ann"][0].id, deadline=deadline)
    workspace.queue.withhold()
    assert workspace.queue.carry_out(grace=3600) == []
    clock.set(timedelta(minutes=61))  # by the clock that deadlines are read from, less than the grace is left
    assert workspace.queue.carry_out(grace=3600) == [number]


def test_a_request_for_a_damaged_file_waits_until_it_is_restored_and_delays_no_other(workspace, fast_path):
    path = workspace.context.store.path("shard:ann")
    raw = path.read_bytes()
    flip(path)
    bad = ask(workspace, BY_SOURCE["ann"][0].id, deadline=datetime.now(UTC) + timedelta(hours=1))  # it comes first
    good = ask(workspace, BY_SOURCE["bob"][0].id)
    workspace.queue.withhold()
    assert workspace.queue.carry_out() == [good]
    assert workspace.queue.find(good).state == queue.DONE
    found = workspace.queue.find(bad)
    assert (found.state, found.failure) == (queue.INSTANT, queue.DAMAGED) and "backup" in found.failure
    assert workspace.queue.carry_out() == [] and workspace.queue.find(bad) == found, "it is not tried again"
    assert requests.withheld_ids(workspace.context.catalogue) == {BY_SOURCE["ann"][0].id}
    with pytest.raises(WorkspaceError, match=f"request {bad} is accepted, .* restore it from a backup"):
        workspace.queue.wait_for(bad)
    with Workspace(workspace.root, workers=1) as other:
        assert other.queue.carry_out() == [], "nor in a process that starts anew"
    path.write_bytes(raw)
    assert workspace.queue.carry_out() == [bad]
    found = workspace.queue.find(bad)
    assert (found.state, found.failure) == (queue.DONE, "") and workspace.verify(full=True).ok
    kept = [row for row in ROWS if row.id not in (BY_SOURCE["ann"][0].id, BY_SOURCE["bob"][0].id)]
    assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / "never")


@pytest.mark.parametrize("how", [flip, Path.unlink], ids=["changed", "missing"])
def test_a_damaged_file_all_of_whose_samples_are_asked_for_is_destroyed_without_being_read(workspace, fast_path, how):
    how(workspace.context.store.path("shard:ann"))
    number = workspace.queue.submit(Submission(ForgetRequest(shards=("ann",)))).number
    workspace.queue.withhold()
    assert workspace.queue.carry_out() == [number]
    assert workspace.queue.find(number).state == queue.DONE
    kept = [row for row in ROWS if row.source != "ann" or row.split == "test"]
    assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / "never")


def test_two_damaged_files_are_no_dead_end(workspace, fast_path):
    """Without the one, the prototypes must be summed again, which reads the other."""
    ann, bob = (workspace.context.store.path(f"shard:{name}") for name in ("ann", "bob"))
    raw = bob.read_bytes()
    flip(ann)
    flip(bob)
    number = workspace.queue.submit(Submission(ForgetRequest(shards=("ann",)))).number
    workspace.queue.withhold()
    assert workspace.queue.carry_out() == []
    assert workspace.queue.find(number).failure == queue.DAMAGED
    bob.write_bytes(raw)
    assert workspace.queue.carry_out() == [number] and workspace.verify(full=True).ok


@pytest.mark.parametrize("name", ["shards", "models", "prototypes.safetensors"])
def test_what_is_erased_but_not_verified_fails_and_can_be_tried_again(workspace, name):
    """Something spoils what the erasure has just written, while it trains."""
    number = ask(workspace, BY_SOURCE["ann"][0].id)
    workspace.queue.withhold()
    store, spoiled = workspace.context.store, {}
    path = {"shards": store.path("shard:ann"), "models": group_path(store.root, "ann")}.get(name, store.root / name)

    def spoil(what, done, of):
        if (what, done) == ("training", 1):
            spoiled[path] = path.read_bytes()
            flip(path)

    workspace.context.progress = spoil
    with pytest.raises(VerificationError):
        workspace.queue.carry_out()
    workspace.context.progress = lambda what, done, of: None
    entry = workspace.queue.find(number)
    assert entry.state == queue.FAILED and "not verified" in entry.failure and entry.certificate is None
    assert workspace.queue.carry_out() == [], "and nothing waits for it"
    if name != "prototypes.safetensors":  # which are summed again
        path.write_bytes(spoiled[path])
    workspace.queue.retry(number)
    workspace.queue.carry_out()
    assert workspace.queue.find(number).state == queue.DONE and workspace.verify(full=True).ok


def test_a_damaged_adapter_fails_no_request_that_neither_reads_nor_rebuilds_it(workspace, fast_path):
    first, second, third = (row.id for row in (*BY_SOURCE["ann"][:2], BY_SOURCE["bob"][0]))
    flip(group_path(workspace.root, "bob"))
    for sample in (first, second):
        number = ask(workspace, sample)
        workspace.queue.withhold()
        assert workspace.queue.carry_out() == [number]
        found = workspace.queue.find(number)
        assert (found.state, found.failure) == (queue.DONE, "") and found.certificate
    assert workspace.status()["damaged"] == 1 and not workspace.status()["complete"]
    assert [check.name for check in workspace.verify().checks if not check.ok] == ["model"]
    ask(workspace, third)  # its group is built again anyway
    workspace.queue.withhold()
    workspace.queue.carry_out()
    assert "damaged" not in workspace.status() and workspace.verify(full=True).ok
    kept = [row for row in ROWS if row.id not in (first, second, third)]
    assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / "never")


def test_the_same_key_is_the_same_request_and_another_body_is_refused(workspace):
    first = workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,)), key="k", body="b"))
    again = workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,)), key="k", body="b"))
    assert first.number == again.number
    with pytest.raises(WorkspaceError, match="Idempotency-Key"):
        workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[1].id,)), key="k", body="c"))
    assert len(queue.listed(workspace.context.catalogue)) == 1


def test_what_is_forgotten_already_is_done_at_once_and_what_never_was_is_refused(workspace):
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    entry = workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert (entry.state, entry.certificate) == ("done", 1)
    with pytest.raises(UnknownSample):
        ask(workspace, "nobody")


def test_a_request_for_what_is_just_leaving_rides_along(workspace):
    source = BY_SOURCE["ann"]
    number = workspace.queue.submit(Submission(ForgetRequest(sources=("ann",)))).number
    workspace.queue.withhold()
    context = workspace.context
    request = execute.accept(context, workspace.queue._plan([number]), False, [number])
    riders = [ask(workspace, source[0].id), workspace.queue.submit(Submission(ForgetRequest(sources=("ann",)))).number]
    assert [workspace.queue.find(n).erasure for n in riders] == [request, request]
    execute.finish(context, request)
    assert [workspace.queue.find(n).state for n in (number, *riders)] == ["done"] * 3
    assert {workspace.queue.find(n).certificate for n in (number, *riders)} == {1}


def test_erasing_cannot_be_cancelled(workspace):
    number = ask(workspace, ROWS[0].id)
    workspace.queue.withhold()
    workspace.queue.carry_out()
    with pytest.raises(WorkspaceError, match="until erasing starts"):
        workspace.queue.cancel(number)
    with pytest.raises(InputError, match="no request 99"):
        workspace.queue.cancel(99)


def test_while_a_service_runs_a_forget_goes_through_the_queue(workspace):
    with Workspace(workspace.root, workers=1) as service, service.context.serving_lock():
        assert workspace.context.is_served
        entry = workspace.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert not workspace.context.is_served
    certificate = workspace.queue.wait_for(entry.number)
    assert certificate.number == 1 and workspace.queue.find(entry.number).state == "done"


def test_what_a_direct_forget_took_meanwhile_is_done(workspace):
    number = ask(workspace, ROWS[0].id)
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    workspace.queue.withhold()
    workspace.queue.carry_out()
    assert (workspace.queue.find(number).state, workspace.queue.find(number).certificate) == ("done", 1)
