"""Requests: their states and history, what they withhold, and who may know of them."""

import pytest

from shardgraph.storage.tables import erasures, inventory, requests
from shardgraph.storage.tables.inventory import Row
from shardgraph.storage.tables.requests import DONE, ERASING, FAILED, INSTANT, RECEIVED, VERIFIED, NewRequest, Waiting

ROWS = [Row(f"s{i}", "cat", "ann" if i < 2 else "bob", f"p{i}", "train", "shard:x") for i in range(4)]


def new(asker, received="2026-01-01", deadline="2026-02-01", key=None):
    return NewRequest(received, deadline, asker, "why", '{"samples": ["x"]}', key, "body")


@pytest.fixture
def asked(catalogue):
    with catalogue.transaction() as transaction:
        inventory.add_samples(transaction, ROWS)
        requests.add_request(transaction, new("ann", key="k1"), ["s0", "s1"], ["m1", "m1", "m2"])
        requests.add_request(transaction, new("bob", "2026-01-03", "2099-01-01"), ["s1", "s2"], ["m1"])
    return catalogue


def test_a_request_has_a_number_and_a_history(asked):
    found = requests.find_request(asked, 1)
    assert (found.number, found.state, found.samples, found.erasure) == (1, RECEIVED, 2, None)
    assert found.history == ((RECEIVED, "2026-01-01"),)
    assert requests.find_request(asked, 3) is None and requests.asker_of(asked, 3) is None
    assert requests.asker_of(asked, 2) == "bob"
    assert requests.find_repeated(asked, "k1") == (1, "body") and requests.find_repeated(asked, "k2") is None


def test_requests_move_only_from_the_states_that_are_named(asked):
    with asked.transaction() as transaction:
        assert requests.move_requests(transaction, [1], INSTANT, of=(RECEIVED,)) == [1]
        assert requests.move_requests(transaction, [1, 2, 9], INSTANT, of=(RECEIVED,)) == [2]
    assert [state for state, _ in requests.find_request(asked, 1).history] == [RECEIVED, INSTANT]


def test_requests_are_listed_by_state_and_asker_in_pages(asked):
    assert [one.number for one in requests.requests_after(asked)] == [1, 2]
    assert [one.number for one in requests.requests_after(asked, after=1)] == [2]
    assert [one.number for one in requests.newest_requests(asked, limit=1)] == [2]
    assert [one.number for one in requests.newest_requests(asked, before=2)] == [1]
    assert [one.number for one in requests.requests_after(asked, asker="bob")] == [2]
    assert requests.requests_after(asked, states=(DONE,)) == []
    assert [one.number for one in requests.nearest_deadlines(asked, None, 5)] == [1, 2]
    assert requests.count_overdue(asked, "2027-01-01") == 1 and requests.count_overdue(asked, "2027-01-01", "bob") == 0
    assert requests.oldest_received(asked, (RECEIVED,)) == "2026-01-01"
    assert requests.oldest_received(asked, (DONE,)) is None


def test_an_erasure_moves_and_closes_its_requests(asked):
    with asked.transaction() as transaction:
        erasures.accept_erasure(transaction, 1, ROWS[:1], instant=False, received="", reason="", opening="{}")
        requests.set_erasure(transaction, 1, 1)
        requests.move_requests_of(transaction, 1, ERASING)
        requests.move_requests_of(transaction, 1, ERASING)
        requests.move_requests_of(transaction, 1, VERIFIED)
    assert requests.requests_of_erasure(asked, 1) == [1]
    assert [state for state, _ in requests.find_request(asked, 1).history] == [RECEIVED, ERASING, VERIFIED]
    assert requests.closed_requests(asked) == []
    with asked.transaction() as transaction:
        assert requests.close_requests_of(transaction, 1, 5) == [1]
        erasures.set_erasure_state(transaction, 1, erasures.DONE)
    assert requests.closed_requests(asked) == [1] and requests.find_wish(asked, 1) == ("{}", "why")
    with asked.transaction() as transaction:
        requests.move_requests(transaction, [1], DONE)
    assert requests.count_requests_by_state(asked) == {DONE: 1, RECEIVED: 1}
    assert requests.count_done(asked) == (1, 0) and requests.count_done(asked, "bob") == (0, 0)
    assert [received for received, _ in requests.times_to_done(asked, 5)] == ["2026-01-01"]
    assert requests.done_under_certificate(asked, 5) == requests.done_under_certificate(asked, 5, "ann") == 1
    assert requests.done_under_certificate(asked, 5, "bob") is None


def test_a_failed_request_keeps_its_samples_withheld(asked):
    with asked.transaction() as transaction:
        requests.fail_requests(transaction, [1], "no room")
    assert (requests.find_request(asked, 1).state, requests.find_request(asked, 1).failure) == (FAILED, "no room")
    assert requests.withheld_by(asked, [1]) == ["s0", "s1"]
    with asked.transaction() as transaction:
        requests.move_requests(transaction, [1], RECEIVED)
    assert requests.find_request(asked, 1).failure == ""


def test_withheld_samples_are_listed_until_all_requests_released_them(asked):
    assert requests.withheld_ids(asked) == {"s0", "s1", "s2"} and requests.withholding_requests(asked) == (1, 2)
    assert requests.withheld_by(asked, [2, 1]) == ["s0", "s1", "s2"] and requests.withheld_by(asked, []) == []
    with asked.transaction() as transaction:
        requests.release_samples(transaction, 1)
        requests.close_request(transaction, 1, 3)
    assert requests.withheld_rows(asked) == ROWS[1:3]


def test_what_waits_is_counted_by_name(asked):
    assert requests.waiting_by_name(asked, "source", ["ann", "bob"]) == {"ann": Waiting(2, 2), "bob": Waiting(1, 2)}
    assert requests.waiting_by_name(asked, "id", ["s1", "s3"], asker="ann") == {"s1": Waiting(1, 1)}
    mine = requests.waiting_by_name(asked, "subject", ["p1", "p2"], asker="ann", sources=["ann"])
    assert mine == {"p1": Waiting(1, 1)}
    assert requests.waiting_by_name(asked, "source", ["bob"], asker="ann") == {"bob": Waiting(1, None)}


def test_an_asker_is_recognised_by_the_marks_of_what_was_named(asked):
    assert requests.was_named_by(asked, "ann", "m2") and not requests.was_named_by(asked, "bob", "m2")
    assert not requests.was_named_by(asked, "ann", "m2", certificate=1)
    with asked.transaction() as transaction:
        requests.drop_names(transaction, 1)
    assert not requests.was_named_by(asked, "ann", "m2") and requests.find_repeated(asked, "k1")
    with asked.transaction() as transaction:
        requests.drop_names(transaction, 1, key=True)
    assert requests.find_repeated(asked, "k1") is None
