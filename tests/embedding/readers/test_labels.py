"""Integer labels that stand for no class, and the same content in two roles, are refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardgraph.embedding.readers.arrays import read_arrays
from shardgraph.embedding.readers.registry import read
from shardgraph.errors import DuplicateSample, InputError


@pytest.mark.parametrize("label", [-1, -2, 2])
def test_an_integer_outside_the_class_names_is_refused_in_arrays(tmp_path, label):
    """-1 is how many mark what has no label; it must not mean the last class."""
    rows = {"features": np.ones((2, 3), np.float32), "labels": np.array([0, label]), "classes": np.array(["a", "b"])}
    np.savez(tmp_path / "a.npz", **rows)
    with pytest.raises(InputError, match=f"from 0 to 1, .*got {label}"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("label", [-1, -2, 2])
def test_an_integer_outside_the_class_names_is_refused_in_tables(tmp_path, label):
    table = pa.table({"id": ["x", "y"], "text": ["x", "y"], "label": [0, label]})
    pq.write_table(table.replace_schema_metadata({"classes": json.dumps(["a", "b"])}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=f"from 0 to 1, .*got {label}"):
        list(read(tmp_path / "t.parquet"))


@pytest.mark.parametrize("column", ["label", "source", "subject", "split"])
def test_the_same_content_with_another_role_is_not_merged(tmp_path, column):
    same = {"text": ["same", "same"], "label": ["a", "a"], "source": ["s", "s"], "subject": ["p", "p"]}
    other = ["train", "test"] if column == "split" else ["a", "b"]
    pq.write_table(pa.table(same | {column: other}), tmp_path / "t.parquet")
    with pytest.raises(DuplicateSample, match="another label, source, subject or split"):
        list(read(tmp_path / "t.parquet"))


def test_arrays_are_not_read_as_records(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.ones((1, 3), np.float32), labels=np.array([0]))
    with pytest.raises(InputError, match=r"by `read_arrays`, got 'a\.npz'"):
        read(tmp_path / "a.npz")
