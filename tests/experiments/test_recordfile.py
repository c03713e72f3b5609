"""Records survive a run that is stopped, whatever it was doing."""

import json
from collections.abc import Iterator

import pytest

from experiments.recordfile import Record, RecordFile
from experiments.records import Records
from shardgraph.errors import InputError

ONE, TWO = ({"rival": name, "n": 4, "seed": 0, "shape": [2, 2]} for name in ("SAFE", "SISA"))


def test_a_record_is_found_again_after_reopening(tmp_path):
    path = tmp_path / "runs" / "runs.jsonl"
    RecordFile(path).add([ONE])
    assert RecordFile(path).has(rival="SAFE", n=4) and not RecordFile(path).has(rival="SAFE", n=8)


def test_each_record_is_written_as_it_comes(tmp_path):
    path = tmp_path / "runs.jsonl"

    def stopped() -> Iterator[Record]:
        yield ONE
        assert json.loads(path.read_text()) == ONE
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RecordFile(path).add(stopped())
    assert RecordFile(path).records == [ONE]


def test_what_is_measured_again_is_not_written_twice(tmp_path):
    file = RecordFile(tmp_path / "runs.jsonl")
    file.add([ONE, {**ONE, "shape": (2, 2), "accuracy": 3.0}, TWO])
    assert RecordFile(file.path).records == file.records == [ONE, TWO]


def test_a_torn_last_line_is_passed_over_and_cut_off_before_the_next(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(ONE) + "\n" + json.dumps(TWO)[:17])
    assert RecordFile(path).records == Records.load(tmp_path).sets["runs"] == [ONE]
    RecordFile(path).add([TWO])
    assert path.read_text() == json.dumps(ONE) + "\n" + json.dumps(TWO) + "\n"


@pytest.mark.parametrize("line", ["{'rival'", "3", "", b"\xff".decode("latin1")])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(ONE) + f"\n{line}\n" + json.dumps(TWO) + "\n")
    with pytest.raises(InputError, match=r"line 2 of '.*runs\.jsonl'"):
        RecordFile(path)
