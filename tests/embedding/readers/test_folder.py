import numpy as np
import pytest
from PIL import Image

from shardgraph.embedding.backbones.images import decode
from shardgraph.embedding.readers.registry import read
from shardgraph.errors import InputError


def put(folder, *names):
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), i, np.uint8)).save(path, "PNG")
    return folder


def test_a_folder_by_class_gives_paths_as_ids_in_order(tmp_path):
    put(tmp_path, "dog/b.png", "cat/z.JPG", "cat/a.jpeg", ".cache/x.png", "dog/.hidden.png")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    reader = read(tmp_path)
    records = list(reader)
    assert (reader.modality, len(reader)) == ("image", 3)
    assert [(r.id, r.label, r.source, r.split) for r in records] == [
        ("cat/a.jpeg", "cat", "", "train"),
        ("cat/z.JPG", "cat", "", "train"),
        ("dog/b.png", "dog", "", "train"),
    ]
    assert decode(records[0].payload).size == (4, 4) and records == list(reader)


def test_sources_and_splits_may_be_folders(tmp_path):
    put(tmp_path / "a", "museum/cat/1.png", "web/cat/1.png")
    assert [(r.id, r.source, r.label) for r in read(tmp_path / "a")] == [
        ("museum/cat/1.png", "museum", "cat"),
        ("web/cat/1.png", "web", "cat"),
    ]
    put(tmp_path / "b", "train/cat/1.png", "test/cat/2.png")
    assert [(r.split, r.source, r.label) for r in read(tmp_path / "b")] == [("test", "", "cat"), ("train", "", "cat")]
    put(tmp_path / "c", "train/web/cat/1.png", "test/web/cat/2.png")
    assert [(r.split, r.source) for r in read(tmp_path / "c")] == [("test", "web"), ("train", "web")]


def test_names_that_are_no_text_are_refused(tmp_path):
    put(tmp_path, "cat/1.png")
    (tmp_path / "cat" / "1.png").rename(tmp_path / "cat" / "\udcff.png")  # how Python spells the byte ff
    with pytest.raises(InputError, match="valid text"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "found none"),
        (("1.png",), "found '1.png'"),
        (("cat/1.png", "web/cat/1.png"), "found 'cat/1.png' and 'web/cat/1.png'"),
        (("a/b/c/1.png",), "found 'a/b/c/1.png'"),
    ],
)
def test_folders_of_another_shape_are_refused(tmp_path, names, message):
    with pytest.raises(InputError, match=message):
        read(put(tmp_path, *names))
