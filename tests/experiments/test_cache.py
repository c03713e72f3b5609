"""The cache: what is in it is what was given, and what cannot be used is told in a line."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from experiments import cache, runs
from experiments.command import run_command
from shardgraph.errors import InputError
from tests.experiments import made_up

BACKBONE = "efficientnet-lite0"


def png(grey: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((16, 16, 3), grey, np.uint8)).save(file, "PNG")
    return file.getvalue()


def table(path: Path, images: list[bytes], **columns: list[str]) -> Path:
    own = {"id": [f"{path.stem}-{i}" for i in range(len(images))], "label": ["ant", "bee"], "image": images}
    pq.write_table(pa.table(own | columns), path)
    return path


@pytest.fixture
def command(monkeypatch):
    """`python -m experiments.cache WORDS`, here."""

    def run(*words: object) -> None:
        line = ["cache", *map(str, words), "--backbone", BACKBONE, "--device", "cpu"]
        monkeypatch.setattr(sys, "argv", line)
        run_command(cache.main)

    return run


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("my_birds.parquet", "my_birds"),
        ("my_dogs.csv", "my_dogs"),
        ("cub200_s128.parquet", "cub200"),
        ("cars196_s112.parquet", "cars196"),
        ("pacs.parquet", "pacs"),
    ],
)
def test_a_data_set_has_the_name_of_its_file(path, name):
    assert cache.set_name(Path(path)) == name


def test_backbones_that_end_alike_have_names_of_their_own():
    assert cache.backbone_name("hf:google/vit.1") == "google-vit.1" != cache.backbone_name("hf:mine/vit.1")
    assert cache.backbone_name("hf:google/vit.1") != cache.backbone_name("hf:google/vit.2")
    assert cache.backbone_name("vit:/some/where/vit_tiny_patch16_224.safetensors") == "vit_tiny_patch16_224"
    assert cache.backbone_name("efficientnet-lite2") == "efficientnet-lite2"
    assert cache.backbone_name("timm:vit_tiny.one") == "vit_tiny.one" != cache.backbone_name("timm:vit_tiny.two")
    assert cache.backbone_name("python:my models/mymodel:build") == "mymodel-build"
    assert cache.backbone_name("hf:./my bert") == cache.backbone_name("hf:my bert") == "my bert"


def test_two_tables_are_two_data_sets_and_a_changed_one_is_refused(tmp_path):
    birds, dogs = (table(tmp_path / name, [png(20), png(90)]) for name in ("my_birds.parquet", "my_dogs.parquet"))
    folder, other = (cache.embed_file(path, BACKBONE, tmp_path / "cache", "cpu") for path in (birds, dogs))
    assert cache.names(tmp_path / "cache") == [f"my_birds--{BACKBONE}", f"my_dogs--{BACKBONE}"]
    assert cache.load(tmp_path / "cache", other.name).train.ids == ("my_dogs-0", "my_dogs-1")
    assert cache.embed_file(birds, BACKBONE, tmp_path / "cache", "cpu") == folder
    table(birds, [png(20), png(91)])
    with pytest.raises(InputError, match="made of these samples"):
        cache.embed_file(birds, BACKBONE, tmp_path / "cache", "cpu")
    table(dogs, [png(20), png(90)], kind=["cat", "dog"])
    with pytest.raises(InputError, match="other columns"):
        cache.embed_file(dogs, BACKBONE, tmp_path / "cache", "cpu", ["label=kind"])


def test_another_backbone_is_refused_and_an_older_cache_is_not(tmp_path):
    birds = table(tmp_path / "birds.parquet", [png(20), png(90)])
    folder = cache.embed_file(birds, BACKBONE, tmp_path / "cache", "cpu")
    told = json.loads((folder / "table.json").read_text())
    del told["data"]
    (folder / "table.json").write_text(json.dumps(told))
    assert cache.embed_file(birds, BACKBONE, tmp_path / "cache", "cpu") == folder
    told["identity"]["weights"] = "others"
    (folder / "table.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="ends alike"):
        cache.embed_file(birds, BACKBONE, tmp_path / "cache", "cpu")


def test_a_module_of_ones_own_is_cached_and_another_under_its_name_is_refused(tmp_path, monkeypatch):
    from tests.embedding.backbones.test_commands import module_text

    birds = table(tmp_path / "birds.parquet", [png(20), png(90)])
    monkeypatch.syspath_prepend(tmp_path)
    for name, scale in (("cached_model", 10), ("deeper/cached_model", 11)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(module_text(scale))
    folder = cache.embed_file(birds, f"python:{tmp_path}/cached_model:build", tmp_path / "cache", "cpu")
    assert folder.name == "birds--cached_model-build"
    assert cache.embed_file(birds, "python:cached_model:build", tmp_path / "cache", "cpu") == folder
    monkeypatch.delitem(sys.modules, "cached_model")  # as in another process
    with pytest.raises(InputError, match="ends alike"):
        cache.embed_file(birds, f"python:{tmp_path}/deeper/cached_model:build", tmp_path / "cache", "cpu")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nothing.parquet",), "'nothing.parquet' does not"),
        (("bad.parquet",), "'bad-1' cannot be read"),
        (("good.parquet", "--column", "kind=x"), "MEANING=NAME"),
        (("good.parquet", "--column", "label"), "MEANING=NAME"),
        (("good.parquet", "--column", "label=kind"), "column 'kind' must be in the table"),
    ],
)
def test_what_cannot_be_embedded_is_told_in_a_line(tmp_path, monkeypatch, capfd, command, words, told):
    monkeypatch.chdir(tmp_path)
    table(Path("bad.parquet"), [png(20), b"nothing to see"])
    table(Path("good.parquet"), [png(20), png(90)])
    with pytest.raises(SystemExit) as end:
        command(*words, "--cache", "cache")
    said = capfd.readouterr().err
    assert end.value.code == 1 and said.count("\n") == 1 and said.startswith("error: ") and told in said
    assert not Path("cache").exists()


def test_a_folder_of_images_is_embedded_and_an_empty_test_split_told(tmp_path, capfd, command):
    for label, grey in (("ant", 20), ("bee", 90)):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        (tmp_path / "pictures" / label / "1.png").write_bytes(png(grey))
    command(tmp_path / "pictures", "--cache", tmp_path / "cache")
    assert "has no test samples" in capfd.readouterr().err
    assert cache.load(tmp_path / "cache", f"pictures--{BACKBONE}").classes == ("ant", "bee")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"test": False}, "'made_up--toy' in .* must have test samples .* 'split'"),
        ({"classes": 1}, "'made_up--toy' in .* must have two classes to learn, found 1"),
        (None, "does not exist: .*experiments.cache"),
    ],
)
def test_a_cache_that_cannot_be_run_on_is_told_before_anything_is_written(tmp_path, wanted, told):
    if wanted is not None:
        made_up.cached(tmp_path / "cache", **wanted)
    with pytest.raises(InputError, match=told):
        runs.run_cache(tmp_path / "cache", tmp_path / "out" / "runs")
    assert not (tmp_path / "out").exists()


def test_an_empty_cache_and_an_unknown_set_are_told(tmp_path):
    with pytest.raises(InputError, match="is empty"):
        cache.usable(tmp_path)
    with pytest.raises(InputError, match=r"'cars196--lite' must be in the cache .*which has made_up--toy"):
        cache.usable(made_up.cached(tmp_path / "cache"), ["cars196--lite"])
