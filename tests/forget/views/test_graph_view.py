"""A shard looked at closely says what a plan would say."""

import pytest

from shardgraph.errors import InputError
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.views.graph_view import view_shard
from shardgraph.graph import Bilevel, BySource
from shardgraph.storage.tables import inventory
from tests.strategies import many


@pytest.mark.parametrize("topology", [BySource(safe=("web",)), Bilevel(2, 2)], ids=["by source", "bilevel"])
def test_what_a_shard_costs_is_what_forgetting_a_sample_of_it_costs(trained, topology):
    rows = many(36)
    workspace = trained(topology, rows)
    manifest = Manifest.load(workspace.root)
    for shard in workspace.views.graph().shards:
        found = view_shard(workspace.context.store, workspace.config, manifest, shard.name)
        row = inventory.find_in_unit(workspace.context.catalogue, f"shard:{shard.name}")[0]
        orders = workspace.plan(ForgetRequest(samples=(row.id,)))
        assert (found.samples, found.state) == (shard.samples, shard.state)
        assert found.groups == orders.groups and found.adapters == orders.adapters
        assert found.revisited == orders.revisited + 1  # the plan does not count what leaves
        assert found.of == 36


def test_what_waits_to_be_forgotten_withdraws_the_groups_that_saw_it(trained):
    rows = many(12)
    workspace = trained(BySource(), rows)
    mine = next(row.id for row in rows if row.source == "bob")
    workspace.queue.submit(Submission(ForgetRequest(samples=(mine,))))
    states = {shard.name: shard.state for shard in workspace.views.graph().shards}
    assert states == {"ann": "serving", "bob": "missing", "web": "serving"}
    manifest = Manifest.load(workspace.root)
    assert view_shard(workspace.context.store, workspace.config, manifest, "bob").state == "missing"
    workspace.queue.withhold()
    workspace.queue.carry_out()
    assert {shard.state for shard in workspace.views.graph().shards} == {"serving"}


def test_a_shard_that_is_not_there_is_an_error(trained):
    workspace = trained(BySource(), many(12))
    with pytest.raises(InputError, match="no shard 'nobody'"):
        view_shard(workspace.context.store, workspace.config, Manifest.load(workspace.root), "nobody")
