"""The balanced split: the map of samples to shards is part of the graph, and "never saw x" means given it without x."""

from dataclasses import replace

import pytest

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.graph import Bilevel, BilevelAcross, BySourceBilevel
from shardgraph.storage.tables import inventory
from tests.strategies import LABELS, Row, embed, many, promised_files

ROWS = [*many(30), *many(4, split="test")]
GONE = tuple(row.id for row in (ROWS[0], ROWS[3], ROWS[11], ROWS[31]))
TOPOLOGIES = [kind(3, 2, assignment="balanced") for kind in (Bilevel, BilevelAcross, BySourceBilevel)]
every_kind = pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.kind)


def given_the_map(create, workspace, rows):
    """A workspace that never saw anybody but `rows`, placed by the map of another."""
    units = {row.id: row.unit for row in inventory.find_by_id(workspace.context.catalogue, [row.id for row in rows])}
    fresh = create("given the map", classes=LABELS)
    fresh.add(embed(rows))
    fixed = {name: getattr(workspace.config, name) for name in ("classes", "topology", "recipe")}
    fresh.context.save_config(replace(fresh.config, **fixed))
    fresh.context.store.aim([(units[row.id], row.id) for row in rows])
    fresh.train()
    return fresh


@every_kind
def test_forgetting_equals_never_having_seen_given_the_map_without_them(trained, create, topology):
    workspace = trained(topology, ROWS)
    kept = [row for row in ROWS if row.id not in GONE]
    expected = given_the_map(create, workspace, kept)
    workspace.forget(ForgetRequest(samples=GONE[:2]))
    workspace.forget(ForgetRequest(samples=GONE[2:]), instant=True)
    workspace.repair()
    assert promised_files(workspace.root) == promised_files(expected.root)
    assert workspace.verify(full=True).ok


@every_kind
def test_who_stays_is_not_moved(trained, topology):
    workspace = trained(topology, ROWS)
    before = {row.id: row.unit for row in inventory.find_by_id(workspace.context.catalogue, [row.id for row in ROWS])}
    workspace.forget(ForgetRequest(samples=GONE))
    workspace.add(embed([Row(f"late {i}", LABELS[i % 4], "ann") for i in range(5)]))
    workspace.train()
    after = {row.id: row.unit for row in inventory.find_by_id(workspace.context.catalogue, [row.id for row in ROWS])}
    assert after == {i: unit for i, unit in before.items() if i not in GONE}


def test_the_order_of_requests_does_not_matter(trained):
    found = []
    for name, order in {"one way": GONE, "the other": GONE[::-1]}.items():
        workspace = trained(TOPOLOGIES[0], ROWS, name)
        for sample in order:
            workspace.forget(ForgetRequest(samples=(sample,)))
        found.append(promised_files(workspace.root))
    assert found[0] == found[1]


def test_without_the_map_it_is_another_split(trained):
    """Why the promise is worded so: dealing the rest anew would move some of them."""
    workspace = trained(TOPOLOGIES[0], ROWS)
    workspace.forget(ForgetRequest(samples=GONE))
    anew = trained(TOPOLOGIES[0], [row for row in ROWS if row.id not in GONE], "anew")
    assert promised_files(workspace.root) != promised_files(anew.root)


def test_classes_are_spread_evenly_over_the_coarse_shards(trained):
    workspace = trained(Bilevel(3, 1, assignment="balanced"), ROWS)
    counts = inventory.unit_labels(workspace.context.catalogue)
    for label in LABELS:
        spread = [labels.get(label, 0) for unit, labels in counts.items() if unit.startswith("shard:")]
        assert max(spread) - min(spread) <= 1
