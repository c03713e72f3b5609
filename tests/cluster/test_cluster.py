"""A cluster answers every item once, whatever is lost on the way, in bounded memory, and not where it is unfit."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from shardgraph.cluster.cluster import CALLS_PER_SLOT, Cluster, Unfit
from shardgraph.errors import ConfigError, FingerprintError, InputError, WorkspaceError
from tests.clusters import kill_one, nodes

pytestmark = pytest.mark.slow
COUNT = 4


@pytest.fixture(scope="module")
def four():
    with nodes(COUNT) as made:
        yield made


@pytest.fixture
def cluster(four):
    made = Cluster(four.address)
    yield made
    made.close()


def double(item):
    return 2 * item


def slowly(item):
    time.sleep(0.05 if item else 1.5)
    return item


def die_once(folder, item):
    """The item, unless this is the first attempt at a certain one: that kills its worker."""
    with (folder / str(item)).open("a") as file:
        file.write("x")
    if item == 3 and (folder / "3").read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def always_dies(item):
    os.kill(os.getpid(), signal.SIGKILL)


def where(item):
    import ray

    return ray.get_runtime_context().get_node_id()


def only_on(node, item):
    here = where(item)
    return here if here == node else Unfit(FingerprintError("torch is '99.0' there, was '2.0'"))


def fails(item):
    raise InputError("a sample must be readable, 'x' is not", ["x"])


def breaks(item):
    raise ZeroDivisionError("in the middle")


def test_every_item_is_answered_once(cluster):
    found = list(cluster.run(double, range(50)))
    assert sorted(found) == [(i, 2 * i) for i in range(50)]
    assert list(cluster.run(double, [])) == []


def test_answers_come_in_order_when_asked_and_as_they_come_when_not(cluster):
    assert [item for item, _ in cluster.run(slowly, range(12), in_order=True)] == list(range(12))
    assert next(cluster.run(slowly, range(12)))[0] != 0


@pytest.mark.parametrize("in_order", [False, True])
def test_items_are_drawn_only_as_there_is_room(cluster, in_order):
    drawn = []

    def items():
        for i in range(1000):
            drawn.append(i)
            yield i

    run = cluster.run(double, items(), in_order=in_order)
    for taken in range(1, 40):
        next(run)
        assert len(drawn) <= taken + COUNT * CALLS_PER_SLOT
    run.close()


def test_a_lost_worker_costs_its_own_call_and_no_other(cluster, tmp_path):
    found = list(cluster.run(partial(die_once, tmp_path), range(20)))
    assert sorted(found) == [(i, i) for i in range(20)]
    attempts = {int(path.name): len(path.read_text()) for path in tmp_path.iterdir()}
    assert attempts == dict.fromkeys(range(20), 1) | {3: 2}


def test_a_call_that_always_loses_its_worker_is_an_error_in_the_end(cluster):
    with pytest.raises(WorkspaceError, match="a call on the cluster failed"):
        list(cluster.run(always_dies, range(1)))


def test_a_nodes_own_errors_arrive_as_they_are(cluster):
    with pytest.raises(InputError, match="'x' is not") as problem:
        list(cluster.run(fails, range(3)))
    assert problem.value.ids == ("x",)
    with pytest.raises(WorkspaceError, match="ZeroDivisionError on a node of the cluster: in the middle"):
        list(cluster.run(breaks, range(3)))


def test_a_node_that_is_unfit_gets_no_work_and_is_named(cluster, four, caplog):
    fit = four.head_node.node_id
    found = list(cluster.run(partial(only_on, fit), range(20)))
    assert sorted(item for item, _ in found) == list(range(20)) and {node for _, node in found} == {fit}
    said = [record.getMessage() for record in caplog.records]
    assert 1 <= len(said) < COUNT and all("gets no work: torch is '99.0' there, was '2.0'" in line for line in said)


def test_where_every_node_is_unfit_the_error_says_why(cluster):
    with pytest.raises(FingerprintError, match=r"no node of the cluster can do this: torch is '99\.0' there"):
        list(cluster.run(partial(only_on, "nowhere"), range(20)))


def test_all_nodes_answer_a_question(cluster):
    assert len(set(cluster.run_everywhere(os.getpid).values())) == COUNT


def test_gpus_that_nobody_has_are_an_error_at_once(cluster):
    with pytest.raises(ConfigError, match=r"no node of the cluster at .* has a GPU"):
        list(cluster.run(double, range(3), gpus=1))


def test_a_call_may_want_more_memory_than_any_node_has(cluster):
    assert list(cluster.run(double, [1], memory=lambda item: 1 << 60)) == [(1, 2)]


def test_another_cluster_in_the_same_process_is_refused(cluster):
    list(cluster.run(double, [1]))
    with pytest.raises(ConfigError, match="this process is connected to Ray at"):
        list(Cluster("10.0.0.1:6379").run(double, [1]))


def test_a_lost_node_costs_the_calls_that_ran_there(cluster, four):
    """The last test here: it leaves one node fewer."""
    found = []
    for item, value in cluster.run(slowly, range(1, 101)):
        found.append((item, value))
        if len(found) == 20:
            kill_one(four)
    assert sorted(found) == [(i, i) for i in range(1, 101)]


def test_a_cluster_of_our_own_ends_with_its_last_user_and_leaves_no_file(tmp_path, monkeypatch):
    import ray

    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", "/tmp")
    before = set(Path("/tmp").glob("shardgraph-ray-*"))
    one, two = Cluster(cpus=1), Cluster(cpus=1)
    for made in (one, two):
        assert list(made.run(double, [4])) == [(4, 8)]
    one.close()
    assert list(two.run(double, [5])) == [(5, 10)]
    two.close()
    assert not ray.is_initialized() and set(Path("/tmp").glob("shardgraph-ray-*")) == before
