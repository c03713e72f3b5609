"""Planning asks the catalogue a few questions, however many people leave or wait."""

import pytest

from shardgraph.forget.config import Config
from shardgraph.forget.erase.plan import ForgetRequest, emptied_names
from shardgraph.forget.queue.queue import Submission, next_batch
from shardgraph.graph import Bilevel, Complete, RandomDegree
from shardgraph.storage.tables import inventory
from tests.strategies import LABELS, Row

ROWS = [Row(f"sample-{i:03d}", LABELS[i % 4], ("ann", "bob")[i // 4 % 2], f"p{i // 2}") for i in range(64)]


def questions(workspace, act):
    """The SQL statements that an act sends."""
    sent = []
    workspace.context.catalogue._db.set_trace_callback(sent.append)
    act()
    workspace.context.catalogue._db.set_trace_callback(None)
    return sent


def rows(workspace, ids):
    return tuple(inventory.find_by_id(workspace.context.catalogue, ids))


def test_who_is_emptied_is_asked_once_a_kind(workspace):
    leaving = rows(workspace, [row.id for row in ROWS[:30]])
    found = []
    sent = questions(workspace, lambda: found.extend(emptied_names(workspace.context.store, leaving)))
    assert found == [("subjects", name) for name in sorted(f"p{i}" for i in range(15))]
    assert len(sent) == 4


def test_emptied_names_every_kind_that_loses_its_last(workspace):
    anns = rows(workspace, [row.id for row in ROWS if row.source == "ann"])
    found = emptied_names(workspace.context.store, anns)
    assert {("sources", "ann"), ("shards", "ann")} <= set(found)
    assert not {kind for kind, _ in found} & {"labels"}
    ants = rows(workspace, [row.id for row in ROWS if row.label == "ant"])
    assert emptied_names(workspace.context.store, ants) == [("labels", "ant")]


def test_what_is_held_is_counted_once_for_all_that_wait(workspace):
    for row in ROWS[:12]:
        workspace.queue.submit(Submission(ForgetRequest(samples=(row.id,))))
    workspace.queue.withhold()
    batch = []
    sent = questions(workspace, lambda: batch.extend(next_batch(workspace.context)))
    assert sorted(batch) == [i + 1 for i, row in enumerate(ROWS[:12]) if row.source == "ann"]
    assert len([sql for sql in sent if "SELECT part, label, rows FROM checks" in sql]) == 1


@pytest.mark.parametrize("topology", [RandomDegree(6, 2), Complete(4), Bilevel(3, 2)], ids=lambda t: t.kind)
def test_a_fixed_graph_is_drawn_once(topology):
    config = Config(seed=0, backbone={}, topology=topology.to_json())
    graph = config.the_topology().graph(())
    assert graph == topology.graph(())
    assert config.the_topology().graph(()) is graph
