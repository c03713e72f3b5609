"""Building: a group is work when anything that its training is a function of has changed, and at no other time."""

from dataclasses import replace

import pytest

from shardgraph.forget.build.wanted import wanted_groups
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.graph import Bilevel, BilevelAcross, BySource, Complete, OwnGraph, RandomDegree, ShardGraph
from tests.strategies import LABELS, ROWS, Row, embed, never_saw, promised_files

READS = OwnGraph(ShardGraph(("ann", "bob", "web"), frozenset({("ann", "web")})))  # ann learns from web, nobody else
NUMERICS = {"torch": "2", "device": "a"}


def keys(workspace, config=None, numerics=NUMERICS):
    found = wanted_groups(workspace.context.store, config or workspace.config, numerics)
    return {name: group.key for name, group in found.items()}


def changed(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if one[name] != other[name]}


def test_a_key_depends_on_configuration_and_numerics(trained):
    workspace = trained(READS)
    base, everyone = keys(workspace), {"ann", "bob", "web"}
    config = workspace.config
    assert changed(base, keys(workspace)) == set()
    for other in (
        replace(config, seed=config.seed + 1),
        replace(config, recipe={**config.recipe, "lr": 0.04}),
        replace(config, recipe={**config.recipe, "loss": "bce"}),
        replace(config, classes=(*LABELS, "eel")),
        replace(config, dtype="float32"),
    ):
        assert changed(base, keys(workspace, other)) == everyone, other
    for name in NUMERICS:
        assert changed(base, keys(workspace, numerics={**NUMERICS, name: "other"})) == everyone
    assert len(set(base.values())) == 3, "the group's name, too"


@pytest.mark.parametrize(("source", "affected"), [("ann", {"ann"}), ("bob", {"bob"}), ("web", {"ann", "web"})])
def test_a_key_depends_on_every_shard_that_the_group_reads_and_on_no_other(trained, source, affected):
    workspace = trained(READS)
    before = keys(workspace)
    workspace.add(embed([Row("late", "ant", source)]))
    assert keys(workspace) == before, "what waits in the inbox is not learned from yet"
    workspace.train()
    assert changed(before, keys(workspace)) == affected
    workspace.forget(ForgetRequest(samples=("late",)))
    assert keys(workspace) == before


def test_one_sample_with_other_contents_is_another_key(trained):
    workspace = trained(READS)
    before = keys(workspace)
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    workspace.add(embed([ROWS[0]._replace(version=1)]), allow_return=True)
    workspace.train()
    assert changed(before, keys(workspace)) == {"ann"}


EDGES = [
    READS,
    BySource(safe=("web",)),
    RandomDegree(4, 1, graph_seed=1),
    RandomDegree(3, 2),
    BilevelAcross(2, 1),
    Complete(3),
    Bilevel(2, 2),
]


@pytest.mark.parametrize("topology", EDGES, ids=lambda topology: str(topology)[:30])
@pytest.mark.parametrize("late", [Row("late", "ant", "web"), Row("later", "bee", "ann"), Row("latest", "cat", "bob")])
def test_who_reads_a_shard_learns_of_its_new_sample(trained, fast_path, topology, late):
    workspace = trained(topology)
    workspace.add(embed([late]))
    workspace.train()
    assert promised_files(workspace.root) == never_saw(workspace, [*ROWS, late], fast_path / "never")


def test_nothing_to_do_trains_nothing(trained):
    steps = []
    workspace = trained(READS, progress=lambda *step: steps.append(step))
    before = promised_files(workspace.root)
    steps.clear()
    workspace.train()
    assert ("training", 0, 0) in steps
    assert promised_files(workspace.root) == before


def test_only_what_changed_is_trained(trained):
    steps = []
    workspace = trained(READS, progress=lambda *step: steps.append(step))
    models = {n: raw for n, raw in promised_files(workspace.root).items() if n.startswith("models")}
    workspace.add(embed([Row("late", "ant", "web")]))
    steps.clear()
    workspace.train()
    assert ("training", 0, 2) in steps
    after = {n: raw for n, raw in promised_files(workspace.root).items() if n.startswith("models")}
    assert sum(after[name] == raw for name, raw in models.items()) == 1


def test_a_rebuild_trains_everything_and_changes_no_byte(trained):
    steps = []
    workspace = trained(READS, progress=lambda *step: steps.append(step))
    before = promised_files(workspace.root)
    steps.clear()
    workspace.train(rebuild=True)
    assert ("training", 0, 3) in steps
    assert promised_files(workspace.root) == before


def test_a_model_file_that_is_gone_is_built_again(trained):
    workspace = trained(READS)
    before = promised_files(workspace.root)
    for path in (workspace.root / "models").rglob("*.safetensors"):
        path.unlink()
    (workspace.root / "prototypes.safetensors").unlink()
    workspace.train()
    assert promised_files(workspace.root) == before
