"""JSON lines: the columns of all lines, embeddings and texts; a line that is no object is named."""

import numpy as np
import pytest

from shardgraph.embedding.readers import jsonl
from shardgraph.embedding.readers.registry import read
from shardgraph.errors import InputError


@pytest.fixture
def lines(tmp_path):
    def write(raw, name="rows.jsonl"):
        (tmp_path / name).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return tmp_path / name

    return write


def test_a_column_may_be_missing_in_some_lines(lines):
    path = lines('\ufeff{"text": "one", "label": 1}\n\n{"label": "b", "text": "zwei", "source": "web", "id": 7}\r\n')
    with pytest.raises(InputError, match="an id must not be empty, row 1"):
        list(read(path))
    records = list(
        read(lines('{"text": "one", "label": 1}\n{"text": "two", "label": "b", "source": "web"}', "x.ndjson"))
    )
    assert [(r.payload, r.label, r.source) for r in records] == [("one", "1", ""), ("two", "b", "web")]


def test_embeddings_are_lists_of_numbers_or_of_tokens(lines):
    (record,) = read(lines('{"label": "a", "embedding": [1, 2.5]}'))
    assert record.payload.tolist() == [1.0, 2.5] and record.payload.dtype == np.float64
    (record,) = read(lines('{"label": "a", "embedding": [[1, 2], [3, 4]]}'))
    assert record.payload.shape == (2, 2)
    for odd in ('"x"', "null", "[]", "3", "[[1, 2], [3]]", '["a"]', "[null]"):
        reader = read(lines(f'{{"label": "a", "embedding": {odd}}}'))
        if odd == "[null]":  # not a number: found with the other numbers, when samples are checked
            assert np.isnan(next(iter(reader)).payload).all()
            continue
        with pytest.raises(InputError, match=r"'embedding' must hold lists of numbers, row 1 of 'rows.jsonl'"):
            list(reader)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"text": "a", "label": "b"}\n[1, 2]\n', "line 2 of 'rows.jsonl' must be one JSON object, got list"),
        (b'{"text": "a", "label": "b"}\n{"text": \n', "line 2 of 'rows.jsonl' must be one JSON object in UTF-8"),
        (b'{"text": "\xff", "label": "b"}\n', "line 1 of 'rows.jsonl' must be one JSON object in UTF-8"),
        (b"\n\n", "must have a column 'image', 'path', 'text' or 'embedding', it has none"),
        (b'{"text": "a"}\n', "must have a column 'label'"),
        (b'{"text": "a", "label": ["b"]}\n', "'label' in row 1 of 'rows.jsonl' must hold text or integers, got list"),
    ],
)
def test_lines_that_cannot_be_read_are_refused(lines, raw, message):
    with pytest.raises(InputError, match=message):
        list(read(lines(raw)))


def test_a_line_without_end_is_refused(lines, monkeypatch):
    monkeypatch.setattr(jsonl, "LONGEST", 100)
    with pytest.raises(InputError, match=r"at most 100 bytes, line 1 of 'rows.jsonl' has more"):
        read(lines('{"label": "b", "text": "' + "a" * 200 + '"}'))
