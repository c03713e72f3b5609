"""Erasures: the journal is filled and emptied with its samples, and the end marks the catalogue dirty."""

import pytest

from shardgraph.storage.tables import erasures, inventory
from shardgraph.storage.tables.inventory import Row

ROWS = [Row("a1", "cat", "ann", "", "train", "shard:x"), Row("b1", "cat", "bob", "", "test", "test:4")]


@pytest.fixture
def accepted(catalogue):
    with catalogue.transaction() as transaction:
        inventory.add_samples(transaction, [*ROWS, Row("c1", "cat", "carl", "", "train", "shard:x")])
        inventory.record_units(transaction, {"shard:x": "d", "test:4": "d", "test:5": "d"})
    with catalogue.transaction() as transaction:
        erasures.accept_erasure(transaction, 1, ROWS, instant=False, received="now", reason="", opening='{"a": 1}')
    return catalogue


def test_accepting_moves_samples_to_the_journal(accepted):
    assert inventory.all_ids(accepted) == ["c1"]
    assert {one.id for one in erasures.leaving(accepted, 1)} == {"a1", "b1"} and erasures.count_leaving(accepted) == 2
    assert erasures.erasures_of(accepted, ["a1", "c1"]) == {"a1": 1}
    assert inventory.find_unit(accepted, "shard:x").dirty and not inventory.find_unit(accepted, "test:5").dirty
    assert erasures.openings(accepted) == {1: '{"a": 1}'}
    assert erasures.last_erasure(accepted) == 1 and erasures.erasures_under_way(accepted) == [1]
    assert erasures.any_erasure_in(accepted, erasures.ACCEPTED) and not accepted.dirty


def test_finishing_empties_the_journal_and_leaves_the_catalogue_dirty(accepted):
    with accepted.transaction() as transaction:
        erasures.finish_erasure(transaction, 1, erasures.INSTANT, finished="later", certificate=7, marks={"m1", "m2"})
    assert erasures.leaving(accepted, 1) == [] and erasures.openings(accepted) == {}
    assert erasures.certificates_of(accepted, ["m1", "m3"]) == {"m1": 7}
    assert erasures.is_forgotten(accepted, "m2") and not erasures.is_forgotten(accepted, "m3")
    assert erasures.last_forgotten_certificate(accepted) == 7
    assert accepted.dirty
    assert erasures.count_erasures_by_state(accepted) == {"instant": 1} and erasures.erasures_under_way(accepted) == []
    with accepted.transaction() as transaction:
        erasures.complete_instant(transaction)
    assert erasures.find_erasure(accepted, 1).state == erasures.DONE


def test_the_mark_is_rolled_back_with_what_it_speaks_of(accepted):
    with pytest.raises(KeyboardInterrupt), accepted.transaction() as transaction:
        erasures.finish_erasure(transaction, 1, erasures.DONE, finished="later", certificate=7, marks={"m1"})
        raise KeyboardInterrupt
    assert not accepted.dirty and erasures.count_leaving(accepted) == 2


def test_only_an_unverified_erasure_is_tried_again(accepted):
    for state, expected in ((erasures.UNVERIFIED, erasures.RETRAINING), (erasures.DONE, erasures.DONE)):
        with accepted.transaction() as transaction:
            erasures.set_erasure_state(transaction, 1, state)
            erasures.retry_unverified(transaction, 1)
        assert erasures.find_erasure(accepted, 1).state == expected
    assert erasures.find_erasure(accepted, 2) is None
