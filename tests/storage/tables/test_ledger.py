"""The ledger: events in order, found by what their details say."""

from datetime import UTC, datetime

from shardgraph.storage.tables import ledger
from shardgraph.storage.tables.ledger import Costs, Event


def add(catalogue, *events):
    with catalogue.transaction() as transaction:
        for event, detail in events:
            ledger.add_event(transaction, event, detail, datetime(2026, 1, 1, tzinfo=UTC))


def test_events_are_numbered_and_paged(catalogue):
    assert ledger.last_event_number(catalogue) == 0
    add(catalogue, ("trained", {"b": 1, "a": 2}), ("received", {}), ("trained", {"a": 3}))
    first = Event(1, "2026-01-01T00:00:00+00:00", "trained", {"a": 2, "b": 1})
    assert ledger.events_after(catalogue, 0, 1) == [first]
    assert [event.number for event in ledger.events_after(catalogue, 1, 9)] == [2, 3]
    assert [event.number for event in ledger.last_events(catalogue, "trained", 9)] == [3, 1]
    assert ledger.last_event_number(catalogue) == 3
    assert ledger.has_event(catalogue, "received") and not ledger.has_event(catalogue, "done")
    assert catalogue.one("SELECT detail FROM ledger") == ('{"a": 2, "b": 1}',), "keys are sorted"


def test_details_are_searched(catalogue):
    add(
        catalogue,
        ("trained", {"model": "m1", "config": "c1"}),
        ("done", {"certificate": 2, "model": "m2", "request": 1}),
        ("trained", {"groups": 0}),
        ("serving", {"state": "s1"}),
        ("arriving", {"input": "i"}),
        ("accepted", {"revisited": 5, "of": 50}),
        ("accepted", {"revisited": 1, "of": 50}),
        ("accepted", {"request": 9}),
    )
    assert ledger.last_models(catalogue, 5) == [("done", "m2"), ("trained", "m1")]
    assert ledger.last_trained_config(catalogue) == "c1"
    assert ledger.last_certificate(catalogue) == 2
    assert ledger.find_serving(catalogue, "s1").number == 4 and ledger.find_serving(catalogue, "s2") is None
    assert ledger.last_event_of_input(catalogue, "i") == "arriving"
    assert ledger.last_event_of_input(catalogue, "j") is None
    assert ledger.count_costs(catalogue) == Costs(2, 6, 100)


def test_an_empty_ledger_has_no_answers(catalogue):
    assert ledger.last_certificate(catalogue) == 0 and ledger.last_models(catalogue, 1) == []
    assert ledger.last_trained_config(catalogue) is None and ledger.count_costs(catalogue) == Costs(0, 0, 0)
    assert ledger.logged_names(catalogue) == set()


def test_lines_of_the_erasure_log_are_known_by_name(catalogue):
    add(catalogue, ("received", {"entry": 1}))
    with catalogue.transaction() as transaction:
        ledger.add_to_last_event(transaction, {"record": "r1"})
    add(catalogue, ("received", {"entry": 2}), ("replayed", {"records": ["r2", "r3"]}))
    assert ledger.logged_names(catalogue) == {"r1", "r2", "r3"}
    assert ledger.logged_name_of(catalogue, 1) == "r1" and ledger.logged_name_of(catalogue, 2) is None


def test_the_account_of_private_edges_is_replaced(catalogue):
    assert ledger.privacy_account(catalogue) is None
    for account in ("{}", '{"reads": 1}'):
        with catalogue.transaction() as transaction:
            ledger.save_privacy_account(transaction, account)
        assert ledger.privacy_account(catalogue) == account
