"""The plan: it reads and changes nothing, and what it says comes true."""

import pytest

from shardgraph.errors import UnknownSample
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.graph import Bilevel, BySource
from shardgraph.storage.tables import inventory
from tests.strategies import QUICK, RING, ROWS, Row, all_bytes, embed, many


def test_planning_changes_no_byte(trained):
    workspace = trained(BySource())
    workspace.context.catalogue.scrub()
    before = {name: raw for name, raw in all_bytes(workspace.root).items() if not name.endswith("-shm")}
    workspace.plan(ForgetRequest(sources=("ann",), labels=("bee",)))
    assert {name: raw for name, raw in all_bytes(workspace.root).items() if not name.endswith("-shm")} == before


def test_the_figures_by_hand(trained):
    """Three shards of eight; who reads ann is ann and web, and web's group reads both."""
    workspace = trained(RING)
    plan = workspace.plan(ForgetRequest(samples=(ROWS[0].id,)))
    assert plan.groups == ("ann", "web")
    assert plan.to_json() == {
        "samples": 1,
        "training_samples": 1,
        "test_samples": 0,
        "groups_to_rebuild": 2,
        "groups_that_vanish": 0,
        "adapters_to_rebuild": 8,
        "samples_to_revisit": 23,  # ann reads ann and bob, web reads web and ann
        "share_of_full_retraining": 23 / 24,
        "classes_that_disappear": [],
        "sources_that_disappear": [],
        "already_forgotten": [],
    }
    alone = trained(BySource(), name="alone").plan(ForgetRequest(samples=(ROWS[0].id, ROWS[1].id)))
    assert (alone.groups, alone.revisited, alone.adapters) == (("ann",), 6, 4)
    assert alone.share == 6 / 24


def test_many_names_are_looked_up_together(trained):
    workspace, asked = trained(BySource()), []
    workspace.context.catalogue._db.set_trace_callback(asked.append)
    names = tuple(f"never here {i}" for i in range(2000))
    for kind in ("samples", "sources", "subjects", "shards", "labels"):
        asked.clear()
        request = ForgetRequest(**{kind: names})
        assert workspace.queue.without_leaving(request) == (request, None)
        with pytest.raises(UnknownSample) as problem:
            workspace.plan(request)
        assert sorted(problem.value.ids) == sorted(names)
        assert len(asked) < 20, kind
    workspace.context.catalogue._db.set_trace_callback(None)


def test_what_disappears_is_said(create):
    workspace = create()
    dans = [Row("only eel", "eel", "dan"), Row("an ant", "ant", "dan"), Row("test eel", "eel", "dan", split="test")]
    workspace.add(embed([*many(8), *dans]))
    workspace.train(BySource(), QUICK)
    plan = workspace.plan(ForgetRequest(samples=("only eel", "an ant")))
    assert (plan.classes, plan.sources, plan.vanishing) == (("eel",), ("dan",), ("dan",))
    workspace.forget(plan)
    assert "eel" not in workspace.model().classes


def test_a_group_that_never_learned_is_neither_rebuilt_nor_vanishes(create):
    """A source with one class has nothing to compare it with: no adapter was ever trained for it."""
    workspace = create()
    workspace.add(embed([*many(8), Row("one eel", "eel", "dan"), Row("other eel", "eel", "dan")]))
    workspace.train(BySource(), QUICK)
    for samples in (("one eel",), ("one eel", "other eel")):
        plan = workspace.plan(ForgetRequest(samples=samples))
        figures = plan.to_json()
        assert (plan.groups, plan.vanishing) == ((), ())
        assert (figures["groups_to_rebuild"], figures["groups_that_vanish"]) == (0, 0)
    workspace.forget(plan)
    assert workspace.verify(full=True).ok


@pytest.mark.parametrize("topology", [Bilevel(2, 2), BySource(safe=("web",)), RING], ids=lambda t: t.kind)
@pytest.mark.parametrize(
    "request_",
    [ForgetRequest(samples=(ROWS[5].id,)), ForgetRequest(sources=("web",)), ForgetRequest(labels=("ant",))],
    ids=["sample", "source", "label"],
)
def test_as_many_groups_are_trained_as_planned(trained, topology, request_):
    steps = []
    workspace = trained(topology, progress=lambda *step: steps.append(step))
    steps.clear()
    plan = workspace.plan(request_)
    before = inventory.built_groups(workspace.context.catalogue)
    workspace.forget(plan)
    after = inventory.built_groups(workspace.context.catalogue)
    trainings = [of for what, done, of in steps if what == "training" and done == 0]
    assert trainings == [len(plan.groups) - len(plan.vanishing)]
    assert set(plan.vanishing) == set(before) - set(after)
    assert plan.adapters == sum(built.adapters for name, built in after.items() if name in plan.groups)
    assert inventory.known_ids(workspace.context.catalogue, (row.id for row in plan.rows)) == set()


def test_before_the_first_training_nothing_would_be_rebuilt(create):
    workspace = create()
    workspace.add(embed(ROWS))
    plan = workspace.plan(ForgetRequest(sources=("ann",)))
    assert (len(plan.rows), plan.groups, plan.revisited, plan.share) == (10, (), 0, 0.0)
