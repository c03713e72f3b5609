"""A first training that ended before its configuration was written leaves nothing to the next."""

import pytest

from shardgraph.forget.intake.first_training import aim_samples, plan_configuration
from shardgraph.graph import Bilevel
from shardgraph.storage.tables import inventory
from tests.strategies import LABELS, QUICK, ROWS, embed, never_saw, promised_files


@pytest.mark.parametrize("coarse", [1, 2])
def test_another_topology_may_follow_a_first_training_that_was_interrupted(create, fast_path, coarse):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    store = workspace.context.store
    for topology in (Bilevel(5, 2), Bilevel(coarse, 1)):  # samples have targets, the configuration is not saved
        config = plan_configuration(store, workspace.config, topology, QUICK)
        aim_samples(store, config, first=True)
    known = {f"shard:c{c}-f0" for c in range(coarse)}
    assert {unit for unit in inventory.unit_digests(workspace.context.catalogue) if unit.startswith("shard:")} == known
    workspace.train(Bilevel(coarse, 1), QUICK)
    found = workspace.verify(full=True)
    assert found.ok, found
    assert promised_files(workspace.root) == never_saw(workspace, ROWS, fast_path / "never")
