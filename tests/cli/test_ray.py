"""The same commands on a cluster of this machine: the same model, and standard output stays one JSON object."""

import shutil

import pytest

from tests.cli.conftest import run


@pytest.mark.slow
def test_training_and_forgetting_on_a_cluster_give_the_model_of_one_process(data, tmp_path):
    pytest.importorskip("ray")
    one, other = tmp_path / "one", tmp_path / "other"
    assert run("init", one, "--seed", 1).code == 0 and run("add", one, data / "data.npz").code == 0
    shutil.copytree(one, other)
    for words in (
        ("train", "WS", "--coarse", 6, "--fine", 1, "--epochs", 2),
        ("forget", "WS", "--sample", "s-007", "--yes"),
    ):
        here, there = (
            run(*(root if word == "WS" else word for word in words), "--json", "--executor", kind).json
            for root, kind in ((one, "serial"), (other, "ray"))
        )
        assert here["model_digest"] == there["model_digest"]


def test_an_executor_that_nobody_knows_is_one_line(ws):
    ran = run("repair", ws, "--executor", "slurm")
    assert ran.code == 1 and ran.err == "error: executor must be one of serial, processes, ray, got 'slurm'\n"
