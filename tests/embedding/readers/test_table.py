import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardgraph.embedding.readers.columns import Columns
from shardgraph.embedding.readers.registry import read
from shardgraph.embedding.records import content_id
from shardgraph.errors import DuplicateSample, InputError


@pytest.fixture
def parquet(tmp_path):
    def write(columns, metadata=None, **options):
        table = pa.table(columns).replace_schema_metadata(metadata)
        pq.write_table(table, tmp_path / "table.parquet", **options)
        return tmp_path / "table.parquet"

    return write


@pytest.fixture
def csv(tmp_path):
    def write(text, name="table.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_a_table_with_the_usual_names_needs_no_flags(parquet):
    path = parquet(
        {
            "id": [7, 8],
            "image": [b"one", b"two"],
            "label": ["cat", "dog"],
            "source": pa.array(["web", None]),
            "subject": ["ann", "bob"],
            "split": pa.array(["train", "test"]).dictionary_encode(),
            "other": [1.5, 2.5],
        }
    )
    reader = read(path)
    first, second = reader
    assert (reader.modality, len(reader)) == ("image", 2)
    assert (first.id, first.payload, first.label, first.source, first.subject) == ("7", b"one", "cat", "web", "ann")
    assert (second.id, second.source, second.split) == ("8", "", "test")


def test_other_names_are_given(parquet):
    path = parquet({"key": ["a"], "image": [b"x"], "caption": ["a cat"], "class": ["cat"], "domain": ["photo"]})
    columns = Columns(id="key", text="caption", label="class", source="domain")
    reader = read(path, columns)
    assert reader.modality == "text"
    assert [(r.id, r.payload, r.label, r.source) for r in reader] == [("a", "a cat", "cat", "photo")]


def test_integers_get_their_names_from_the_schemas_metadata(parquet):
    columns = {"text": ["x", "y"], "label": pa.array([1, 0], pa.int16()), "domain": [0, 1]}
    metadata = {"classes": json.dumps(["cat", "dog"]), "domains": json.dumps(["art", "photo"])}
    rows = list(read(parquet(columns, metadata), Columns(source="domain")))
    assert [(r.label, r.source) for r in rows] == [("dog", "art"), ("cat", "photo")]
    hugging = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    assert [r.label for r in read(parquet(columns, {"huggingface": json.dumps(hugging)}))] == ["dog", "cat"]
    assert [r.label for r in read(parquet(columns))] == ["1", "0"]
    with pytest.raises(InputError, match="from 0 to 0"):
        list(read(parquet(columns, {"classes": json.dumps(["cat"])})))


def test_images_may_be_structs_or_paths(parquet, csv, tmp_path):
    structs = [{"bytes": b"one", "path": None}, {"bytes": None, "path": "two.jpg"}]
    rows = list(read(parquet({"id": ["a", "b"], "image": structs, "label": ["x", "y"]})))
    assert [r.payload for r in rows] == [b"one", tmp_path / "two.jpg"]
    rows = list(read(csv("path,label\nimages/1.jpg,cat\n")))
    assert [(r.id, r.payload) for r in rows] == [("images/1.jpg", tmp_path / "images" / "1.jpg")]


def test_samples_without_ids_are_named_by_their_content_once(parquet):
    path = parquet({"text": ["same", "other", "same"], "label": ["a", "b", "a"]})
    reader = read(path)
    assert [r.id for r in reader] == [content_id("same"), content_id("other")]
    assert reader.repeats == 1 and len(reader) == 3
    with pytest.raises(DuplicateSample, match="name a column with ids") as problem:
        list(read(parquet({"text": ["same", "same"], "label": ["a", "b"]})))
    assert problem.value.ids == (content_id("same"),)


def test_many_rows_come_in_order_whatever_the_row_groups(parquet):
    n = 1000
    path = parquet({"id": list(range(n)), "text": [f"t{i}" for i in range(n)], "label": ["x"] * n}, row_group_size=300)
    assert [int(r.id) for r in read(path)] == list(range(n))


def test_csv_keeps_every_cell_as_it_stands(csv):
    reader = read(csv('\ufeffid,text,label,split\n007,"two\nlines, and ""quotes""",3,test\n8,é,3,\n'))
    first, second = reader
    assert (first.id, first.label, first.split) == ("007", "3", "test") and len(reader) == 2
    assert first.payload == 'two\nlines, and "quotes"' and (second.payload, second.split) == ("é", "train")
    assert [r.payload for r in read(csv("text\tlabel\na, b\tx\n", "table.tsv"))] == ["a, b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'image', 'path', 'text' or 'embedding', it has none"),
        ("id,text\n1,a\n", "a column 'label', it has 'id', 'text'"),
        ("id,name,label\n1,a,b\n", "it has 'id', 'name', 'label'"),
        ("text,label\n", "at least one row"),
        ("text,label\na\n", "row 1 has not"),
        ("text,label\na,\n", "label that is not empty.*row 1 of 'table.csv'"),
        ("text,label,split\na,b,dev\n", "'train' or 'test', got 'dev'"),
        ("id,text,label\n,a,b\n", "an id must not be empty, row 1"),
        ("text,label\n,b\n", "an id or content, row 1"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(csv, text, message):
    with pytest.raises(InputError, match=message):
        list(read(csv(text)))


def test_columns_that_are_named_must_be_there(parquet):
    path = parquet({"text": ["a"], "label": ["b"]})
    with pytest.raises(InputError, match="'key' must be in the table, it has 'text', 'label'"):
        read(path, Columns(id="key"))
    with pytest.raises(InputError, match="must hold text or integers, got float"):
        list(read(parquet({"text": ["a"], "label": [0.5]})))


def test_an_empty_cell_is_a_sample_that_no_backbone_can_read(parquet):
    columns = {"id": ["a", "b"], "image": pa.array([None, b"x"], pa.binary()), "label": ["x", "y"]}
    assert [r.payload for r in read(parquet(columns))] == [b"", b"x"]


@pytest.mark.parametrize(("name", "wanted"), [("image", "bytes of encoded images"), ("text", "must hold text")])
def test_content_of_another_kind_is_refused_with_its_row(parquet, name, wanted):
    path = parquet({name: [1, 2], "label": ["a", "b"]})
    with pytest.raises(InputError, match=f"'{name}' must hold .*row 1 of 'table.parquet' has int") as problem:
        list(read(path))
    assert wanted in str(problem.value)


def test_paths_that_are_nothing_we_know_are_refused(tmp_path, parquet):
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(parquet({"text": ["a"], "label": ["b"]}).read_bytes()[:-9])
    (tmp_path / "table.xlsx").write_bytes(b"PK")
    (tmp_path / "latin.csv").write_bytes(b"text,label\n\xe9,a\n")
    for name, message in (
        ("torn.parquet", "whole Parquet file"),
        ("table.xlsx", "must be a folder of images or a file of .parquet, .csv"),
        ("latin.csv", "in UTF-8"),
        ("gone.csv", "does not"),
    ):
        with pytest.raises(InputError, match=message):
            list(read(tmp_path / name))
    with pytest.raises(InputError, match="column names are for tables"):
        read(tmp_path, Columns(id="x"))


def test_a_cell_that_is_too_long_is_called_that(csv):
    path = csv('text,label\n"' + "x" * 200_000 + '",cat\n')
    with pytest.raises(InputError, match="a cell of more than 131,072 characters"):
        list(read(path))


@pytest.mark.parametrize("header", ["text,label,label", "text,text,label", "id,text,label,id"])
def test_a_column_that_is_there_twice_is_refused(csv, header):
    path = csv(f"{header}\n{','.join('abcd'[: header.count(',') + 1])}\n")
    with pytest.raises(InputError, match="once"):
        read(path)


def test_a_column_that_is_not_read_may_be_there_twice(csv):
    assert [record.label for record in read(csv("text,label,note,note\na,cat,x,y\n"))] == ["cat"]
