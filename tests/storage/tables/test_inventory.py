"""Samples and units: found and counted by any column, moved to their targets, and what is built."""

import pytest

from shardgraph.storage.tables import inventory, names
from shardgraph.storage.tables.inventory import Built, Row, Unit

ROWS = [
    Row("a1", "cat", "ann", "p1", "train", "shard:x"),
    Row("a2", "dog", "ann", "p1", "train", "shard:x"),
    Row("b1", "cat", "bob", "", "train", "shard:y"),
    Row("b2", "cat", "bob", "p2", "test", "test:4"),
    Row("c1", "dog", "", "", "train", "inbox:10"),
    Row("c2", "dog", "", "", "test", "inbox:9"),
]


@pytest.fixture
def filled(catalogue):
    with catalogue.transaction() as transaction:
        inventory.add_samples(transaction, ROWS)
        inventory.add_units(transaction, ["inbox:9", "inbox:10", "inbox:2"])
        inventory.record_units(transaction, {"shard:x": "dx", "inbox:9": "d9"})
    return catalogue


def test_samples_are_found_by_every_column(filled):
    assert inventory.find_by_id(filled, ["b1", "a1", "nobody"]) == [ROWS[0], ROWS[2]]
    assert inventory.find_in_unit(filled, "shard:x") == ROWS[:2]
    assert inventory.find_by(filled, "label", ["dog"]) == [ROWS[1], *ROWS[4:]]
    assert inventory.find_by(filled, "subject", ["p1", "p2"]) == [*ROWS[:2], ROWS[3]]
    assert inventory.known_ids(filled, ["a1", "nobody"]) == {"a1"}
    assert inventory.all_ids(filled) == [row.id for row in ROWS]
    with pytest.raises(AssertionError):
        inventory.find_by(filled, "1; DROP TABLE samples", ["x"])


def test_samples_are_counted(filled):
    counted = (inventory.count_samples, inventory.count_waiting, inventory.count_in_shards, inventory.count_held_out)
    assert [count(filled) for count in counted] == [6, 2, 3, 1]
    assert inventory.count_by_split(filled) == {"train": 4, "test": 2}
    assert inventory.count_by_source(filled) == {"ann": 2, "bob": 2}
    assert inventory.count_by(filled, "unit", ["shard:x", "shard:z"]) == {"shard:x": 2}
    assert inventory.count_training_by_source(filled, ["ann", "bob", "nobody"]) == {"ann": 2, "bob": 1}


def test_an_empty_catalogue_counts_both_splits(catalogue):
    assert inventory.count_by_split(catalogue) == {"train": 0, "test": 0}
    assert inventory.last_inbox_number(catalogue) == 0
    assert inventory.built_prototypes(catalogue) is None


def test_samples_are_found_by_where_they_are(filled):
    assert {row.id for row in inventory.waiting_rows(filled)} == {"c1", "c2"}
    assert sorted(row.id for row in inventory.placed_rows(filled)) == ["a1", "a2", "b1", "b2"]
    assert inventory.held_out_ids(filled, 5) == ["b2"]
    assert inventory.occupied_units(filled) == ["inbox:10", "inbox:9", "shard:x", "shard:y", "test:4"]
    assert sorted(inventory.training_labels(filled)) == ["cat", "dog"]
    assert inventory.unit_labels(filled)["shard:x"] == {"cat": 1, "dog": 1}
    assert inventory.shard_sources(filled) == {"shard:x": {"ann": 2}, "shard:y": {"bob": 1}}
    assert inventory.unit_sources(filled, "shard:y") == {"bob": 1}
    assert ("shard:x", "ann", "dog", 1) in inventory.shard_contents(filled)


def test_names_are_found_by_their_beginning(filled):
    assert names.samples_beginning(filled, "a") == ROWS[:2]
    assert names.samples_beginning(filled, "a", sources=["bob"]) == []
    assert names.samples_beginning(filled, "", sources=[]) == []
    assert names.names_beginning(filled, "subject", "p") == {"p1": 2, "p2": 1}
    assert names.names_beginning(filled, "source", "b", most=1) == {"bob": 2}


def test_a_beginning_is_no_pattern(filled):
    assert names.samples_beginning(filled, "%") == names.samples_beginning(filled, "_1") == []


def test_samples_move_to_their_targets(filled):
    with filled.transaction() as transaction:
        inventory.set_targets(transaction, {"c1": "shard:x", "c2": "test:1"})
    assert inventory.is_placing(filled) and inventory.unassigned_rows(filled) == []
    assert inventory.targets(filled) == ["shard:x", "test:1"]
    assert sorted(inventory.origins(filled)) == ["inbox:10", "inbox:9"]
    assert inventory.arriving(filled, "shard:x") == {"c1": "inbox:10"}
    assert inventory.find_unit(filled, "shard:x") == Unit("dx", True)
    with filled.transaction() as transaction:
        inventory.record_units(transaction, {"shard:x": "dx2"})
    assert inventory.find_unit(filled, "shard:x") == Unit("dx2", False)
    assert [row.id for row in inventory.find_in_unit(filled, "shard:x")] == ["a1", "a2", "c1"]
    with filled.transaction() as transaction:
        inventory.clear_targets(transaction)
    assert not inventory.is_placing(filled)
    assert inventory.unit_digests(filled) == {"shard:x": "dx2", "inbox:9": "d9"}, "what was never written is dropped"


def test_units_of_the_inbox_are_numbered_and_dropped_when_empty(filled):
    assert inventory.last_inbox_number(filled) == 10
    assert inventory.empty_inbox_units(filled) == ["inbox:2"]
    with filled.transaction() as transaction:
        inventory.remove_unit(transaction, "inbox:2")
    assert inventory.find_unit(filled, "inbox:2") is None and inventory.any_unit_dirty(filled)


def test_what_is_built_is_listed_by_the_names_of_groups(catalogue):
    group, sums = Built("k", "d", 5, 2), Built("k2", "d2", 9, 0)
    with catalogue.transaction() as transaction:
        inventory.record_group(transaction, "prototypes", group)
        inventory.record_group(transaction, "g", group)
        inventory.record_prototypes(transaction, sums)
    assert inventory.built_groups(catalogue) == {"g": group, "prototypes": group}
    assert inventory.built_prototypes(catalogue) == sums and inventory.is_group_built(catalogue, "g")
    with catalogue.transaction() as transaction:
        inventory.set_prototypes_key(transaction, "other")
        inventory.remove_groups(transaction, ["prototypes"])
    assert inventory.built_prototypes(catalogue) == Built("other", "d2", 9, 0)
    assert list(inventory.built_groups(catalogue)) == ["g"]
    with catalogue.transaction() as transaction:
        inventory.clear_built_keys(transaction)
    assert inventory.built_groups(catalogue)["g"].key == inventory.built_prototypes(catalogue).key == ""
