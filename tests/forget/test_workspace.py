"""A plan that has become untrue is refused beside a service, too; evaluation holds one file at a time."""

import threading
import weakref

from shardgraph.errors import WorkspaceError
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.samples import concatenate
from shardgraph.storage.tables import inventory, requests
from tests.strategies import Row, embed, many

ROWS = [*many(24), *many(40, split="test")]


def test_a_stale_plan_is_refused_while_a_service_runs(workspace):
    plan = workspace.plan(ForgetRequest(sources=("ann",)))
    workspace.add(embed([Row("late", "ant", "ann")]))
    workspace.train()
    problems = []

    def ask():
        with Workspace(workspace.root, workers=1) as other:
            try:
                other.forget(plan)
            except WorkspaceError as error:
                problems.append(str(error))

    asking = threading.Thread(target=ask)
    with workspace.context.serving_lock():
        asking.start()
        asking.join(3)
    asking.join()
    assert problems == ["the plan is stale: the workspace changed since; plan again"]
    assert requests.count_requests_by_state(workspace.context.catalogue) == {}
    assert inventory.known_ids(workspace.context.catalogue, ["late"]) == {"late"}


def test_a_true_plan_is_carried_out_while_a_service_runs(workspace):
    plan = workspace.plan(ForgetRequest(samples=(ROWS[0].id,)))
    with Workspace(workspace.root, workers=1) as service, service.context.serving_lock():
        found = []
        asking = threading.Thread(target=lambda: found.append(told(workspace.root, plan)))
        asking.start()
        while not (service.queue.withhold() or service.queue.carry_out()):
            pass
        service.queue.carry_out()
        asking.join()
    assert found == [1]


def told(root, plan):
    with Workspace(root, workers=1) as other:
        return other.forget(plan).number


def test_evaluation_holds_one_file_at_a_time(workspace, monkeypatch):
    """The same figures as from all held-out samples at once."""
    units = [unit for unit in inventory.unit_digests(workspace.context.catalogue) if unit.startswith("test:")]
    whole = concatenate(workspace.context.store.read(unit) for unit in units)
    right = [a == b for a, b in zip(workspace.predict(whole), whole.labels, strict=True)]
    alive, most, read = weakref.WeakValueDictionary(), [], workspace.context.store.read

    def reading(unit):
        samples = read(unit)
        alive[unit] = samples
        most.append(len(alive))
        return samples

    monkeypatch.setattr(workspace.context.store, "read", reading)
    found = workspace.evaluate()
    figures = {"accuracy": sum(right) / 40, "samples": 40, "correct": sum(right), "unknown": 0}
    assert figures.items() <= found.items() and len(most) == len(units) > 5
    assert max(most) <= 2, "the one before is given up when the next has been read"
