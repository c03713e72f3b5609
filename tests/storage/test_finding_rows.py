"""Samples are found by an index, whatever names them."""

import pytest

from shardgraph.storage.tables import inventory
from shardgraph.storage.tables.inventory import Row

COLUMNS = ("id", "label", "source", "subject", "unit")


@pytest.fixture
def catalogue(catalogue):
    with catalogue.transaction() as db:
        rows = [Row(f"i{k}", f"l{k % 3}", f"s{k % 2}", f"p{k // 2}" * (k > 3), "train", "shard:a") for k in range(1200)]
        inventory.add_samples(db, rows)
    return catalogue


def steps(catalogue, column):
    sql = f"EXPLAIN QUERY PLAN SELECT * FROM samples WHERE {column} IN (?, ?)"
    return " ".join(row[-1] for row in catalogue.all(sql, "a", "b"))


@pytest.mark.parametrize("column", COLUMNS)
def test_no_column_is_scanned(catalogue, column):
    assert "SEARCH" in steps(catalogue, column) and "SCAN" not in steps(catalogue, column)


def test_samples_are_counted_by_name(catalogue):
    people = [f"p{k}" for k in range(700)]
    found = inventory.count_by(catalogue, "subject", people)
    assert found == {f"p{k}": 2 for k in range(2, 600)}
    assert inventory.count_by(catalogue, "source", ["s0", "nobody"]) == {"s0": 600}
    assert inventory.count_by(catalogue, "unit", []) == {}


@pytest.mark.parametrize("column", COLUMNS)
def test_samples_within_sources_are_found_and_no_others(catalogue, column):
    names = {"id": ["i0", "i1"], "label": ["l0"], "source": ["s0", "s1"], "subject": ["p4"], "unit": ["shard:a"]}[
        column
    ]
    rows = inventory.find_within(catalogue, column, names, ["s0"])
    assert rows == [row for row in inventory.find_by(catalogue, column, names) if row.source == "s0"] != []
    assert inventory.find_within(catalogue, column, names, []) == []
