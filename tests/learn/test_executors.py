"""One contract over every executor: the bytes of train_group, whoever runs it and in whatever company."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shardgraph.cluster.cluster import Cluster
from shardgraph.digest import digest
from shardgraph.errors import DamagedFile, FingerprintError, WorkspaceError
from shardgraph.learn.executors import GroupTask, ProcessExecutor, SerialExecutor, choose_executor
from shardgraph.learn.executors.base import FEW
from shardgraph.learn.executors.ray import RayExecutor, check_numerics, cluster_numerics, train_wave
from shardgraph.learn.group import train_group
from shardgraph.learn.numerics import fingerprint
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import concatenate, pack_samples
from tests.clusters import nodes
from tests.strategies import embed, many

OURS = Cluster(cpus=2)  # starts when it is first used
EXECUTORS = {
    "serial": SerialExecutor,
    "one process": lambda: ProcessExecutor(1),
    "two processes": lambda: ProcessExecutor(2),
    "ray": lambda: RayExecutor(OURS, fingerprint()),
}
RECIPES = [
    Recipe(projection="orthogonal", heads=2, epochs=2, batch=4, lr=0.05),
    Recipe(projection="random", loss="bce", epochs=2, batch=4, lr=0.05),
    Recipe(adapter="linear", epochs=2, batch=4, lr=0.05),
]
every_executor = pytest.mark.parametrize(
    "executor", [pytest.param(name, marks=pytest.mark.slow if name == "ray" else ()) for name in EXECUTORS]
)


@pytest.fixture(scope="module", autouse=True)
def _ends_with_the_module():
    yield
    OURS.close()


@pytest.fixture
def files(tmp_path):
    """Three shard files: ants and bees, bees and cats, dogs alone."""
    made = {}
    for name, labels in {"ab": ("ant", "bee"), "bc": ("bee", "cat"), "d": ("dog",)}.items():
        samples = embed([row._replace(id=name + row.id) for row in many(11, labels=labels)], dim=32, most_tokens=3)
        path = tmp_path / name
        path.write_bytes(pack_samples(samples))
        made[name] = (samples, (str(path), digest(path.read_bytes())))
    return made


def tasks_for(files, folder):
    """Groups of one shard, of two members, and of a member that learns from another shard; every recipe."""
    shapes = {"one": (["ab"], []), "two": (["ab", "bc"], []), "reads": (["bc"], ["d"])}
    return [
        GroupTask(
            name=f"{name} {i}",
            members=tuple(files[n][1] for n in members),
            others=tuple(files[n][1] for n in others),
            recipe=recipe.to_json(),
            seed=5,
            output=str(folder / f"{name} {i}"),
        )
        for i, recipe in enumerate(RECIPES)
        for name, (members, others) in shapes.items()
    ]


def expected(files, task):
    names = [Path(path).name for path, _ in task.members + task.others]
    members = {label for path, _ in task.members for label in files[Path(path).name][0].labels}
    samples = concatenate(files[name][0] for name in names)
    return train_group(task.name, samples, tuple(sorted(members)), Recipe.from_json(task.recipe), 5)


@every_executor
def test_results_and_files_are_those_of_train_group(executor, files, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    tasks = tasks_for(files, folder)
    for task in tasks:
        Path(task.output).touch()
    results = {result.name: result for result in EXECUTORS[executor]().run(tasks)}
    assert set(results) == {task.name for task in tasks}
    for task in tasks:
        adapters = expected(files, task)
        assert Path(task.output).read_bytes() == adapters.to_bytes()
        result = results[task.name]
        assert (result.digest, result.samples) == (adapters.digest, adapters.samples)
        assert result.adapters == len(adapters.classes)


@every_executor
def test_a_shard_that_was_changed_is_an_error_and_no_model(executor, files, tmp_path):
    path = Path(files["ab"][1][0])
    path.write_bytes(path.read_bytes()[:-1] + b"\x77")
    task = tasks_for(files, tmp_path)[0]
    Path(task.output).touch()
    with pytest.raises(DamagedFile, match="torn or was changed"):
        list(EXECUTORS[executor]().run([task]))
    assert Path(task.output).read_bytes() == b""


@every_executor
def test_a_worker_that_outlived_its_command_writes_nothing(executor, files, tmp_path):
    """Its place in the scratch folder was swept away; what it learned from may be forgotten by now."""
    task = tasks_for(files, tmp_path)[0]
    with pytest.raises(WorkspaceError, match="its command has ended"):
        list(EXECUTORS[executor]().run([task]))
    assert not Path(task.output).exists()


def test_a_task_survives_json(files, tmp_path):
    for task in tasks_for(files, tmp_path):
        assert GroupTask.from_json(task.to_json()) == task


def test_nothing_to_do_needs_no_worker_and_no_cluster():
    assert list(ProcessExecutor(2).run([])) == []
    assert list(RayExecutor(Cluster("10.0.0.1:6379"), fingerprint()).run([])) == []


def test_a_worker_with_other_numerics_refuses_and_says_what_differs(files, tmp_path):
    task = tasks_for(files, tmp_path)[0]
    assert check_numerics(fingerprint()) is None
    for wanted, words in (
        (fingerprint() | {"torch": "1.0"}, f"numerics are others: torch is '{torch.__version__}' there, was '1.0'"),
        ({"kind": "cuda"}, "its GPU is not one that torch can use"),
    ):
        if wanted["kind"] == "cuda" and torch.cuda.is_available():
            continue
        error = train_wave(wanted, None, [task]).error
        assert isinstance(error, FingerprintError) and words in str(error)


def test_a_worker_that_does_not_see_the_files_refuses(files, tmp_path):
    task = tasks_for(files, tmp_path)[0]
    Path(task.members[0][0]).unlink()
    with pytest.raises(WorkspaceError, match=r"it does not see .*--ray-storage"):
        raise train_wave(fingerprint(), None, [task]).error


@pytest.mark.slow
def test_a_cluster_whose_gpus_torch_cannot_use_is_refused_and_its_cores_are_used(files, tmp_path):
    """The GPU is one in name only, so that what it is asked for can be seen anywhere."""
    if torch.cuda.is_available():
        pytest.skip("here a GPU would be used")
    OURS.close()
    task = tasks_for(files, tmp_path)[0]
    Path(task.output).touch()
    with nodes(1) as made:
        made.add_node(num_cpus=1, num_gpus=1)
        cluster = Cluster(made.address)
        assert cluster.slots("GPU") == 1
        with pytest.raises(FingerprintError, match="no node of the cluster can do this: its GPU is not one"):
            list(RayExecutor(cluster, {"kind": "cuda"}).run([task]))
        numerics = cluster_numerics(cluster, "cpu", {})
        assert numerics == fingerprint()
        assert [result.name for result in RayExecutor(cluster, numerics).run([task])] == [task.name]
        cluster.close()


def test_a_worker_whose_parent_was_killed_ends_in_silence():
    """Its answers go into a pipe that nobody reads any more."""
    unread, written = os.pipe()
    command = [sys.executable, "-m", "shardgraph.learn.executors.process_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=written, stderr=subprocess.PIPE, text=True) as worker:
        os.close(written)
        os.close(unread)
        _, said = worker.communicate("{}\n", timeout=60)
    assert said == "" and worker.returncode == 1


def test_many_groups_get_processes_and_a_few_do_not(files, tmp_path):
    task = tasks_for(files, tmp_path)[0]
    assert isinstance(choose_executor([task] * FEW, None), SerialExecutor)
    assert isinstance(choose_executor([task] * 99, 1), SerialExecutor)
    assert isinstance(choose_executor([task], 2), ProcessExecutor)
