"""Additions are those of today, were not there before, and hide nothing else from the comparison."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import surface
from tests.compatibility.additions import ADDED_OPTIONS, ADDITIONS, CHANGED, as_before, find
from tests.compatibility.samples import write_samples
from tests.compatibility.scenarios import MEMORY, load_table, run

STEPS = (
    "init WS --seed 1",
    "add WS DATA/twins.npz",
    "train WS --device cpu --epochs 1 --coarse 2",
    "plan WS --sample s-001 --json",
    "evaluate WS --json",
    "forget WS --sample s-001 --yes --json",
)


@pytest.fixture(scope="module")
def outputs() -> dict[str, Any]:
    """What every command with additions prints."""
    found = {}
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        places = {"WS": Path(folder, "ws"), "DATA": write_samples(Path(folder, "data"))}
        for words in STEPS:
            code, found[words.partition(" ")[0]] = run(words, places)
            assert code == 0, words
    return found


def test_every_added_key_is_printed_and_has_a_reason(outputs: dict[str, Any]):
    for command, keys in ADDITIONS.items():
        assert [key for key in keys if not find(outputs[command], key)] == []
        assert all(keys.values())


def test_every_changed_value_is_printed_and_has_a_reason(outputs: dict[str, Any]):
    for (command, key), (now, then, reason) in CHANGED.items():
        assert find(outputs[command], key) == [now] and now != then and reason


def test_no_added_key_was_there_before():
    table = load_table()
    for record in table["scenarios"].values():
        for step in record["steps"]:
            added = ADDITIONS.get(step["command"].partition(" ")[0], {})
            assert not set(added) & set(step.get("keys", ()))


def test_every_added_option_is_new_and_there():
    before, now = surface.load()["commands"], surface.commands()
    for command, options in ADDED_OPTIONS.items():
        assert not set(options) & set(before[command]["options"])
        assert set(options) <= set(now[command]["options"]) and all(options.values())


def test_what_is_not_listed_is_compared():
    output = {"accuracy": 1, "classes": [], "other": 2, "plan": {"training_samples": 1}}
    assert as_before("evaluate", output) == {"accuracy": 1, "other": 2, "plan": {"training_samples": 1}}
    assert as_before("forget", output) == output | {"plan": {}}
    assert as_before("status", output) == output
