"""Every scenario leaves the bytes, statements, keys and exit codes that the committed table holds."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.machine import machine
from tests.compatibility.samples import write_samples
from tests.compatibility.scenarios import (
    BY_NAME,
    MEMORY,
    SCENARIOS,
    differences,
    load_table,
    numeric_part,
    plain_part,
    play,
)

NAMES = list(BY_NAME)


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    """The committed table."""
    return load_table()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the samples that scenarios add."""
    return write_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, samples: Path) -> dict[str, Any]:
    """What the scenario leaves today; played once for both tests."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        return play(BY_NAME[request.param], samples, Path(folder))


def test_table_and_scenarios_have_the_same_names_and_steps(table: dict[str, Any]):
    assert list(table["scenarios"]) == sorted(BY_NAME) and len(BY_NAME) == len(SCENARIOS)
    for scenario in SCENARIOS:
        assert [step["command"] for step in table["scenarios"][scenario.name]["steps"]] == list(scenario.steps)


@pytest.mark.parametrize("found, name", [(name, name) for name in NAMES], ids=NAMES, indirect=["found"], scope="module")
class TestScenario:
    """The two halves of a scenario's record."""

    def test_leaves_the_same_files_of_samples_and_keys_on_every_machine(
        self, table: dict[str, Any], found: dict[str, Any], name: str
    ):
        assert differences(plain_part(table["scenarios"][name]), plain_part(found)) == []

    def test_leaves_the_same_models_and_statements_under_equal_numerics(
        self, table: dict[str, Any], found: dict[str, Any], name: str
    ):
        if machine() != table["machine"]:
            pytest.skip(f"the table was made under other numerics: {table['machine']}, here {machine()}")
        assert differences(numeric_part(table["scenarios"][name]), numeric_part(found)) == []


def test_a_changed_recipe_is_noticed(table: dict[str, Any], samples: Path, fast_path: Path):
    """The comparison can fail: another learning rate gives other models, and another configuration."""
    scenario = BY_NAME["bilevel"]
    steps = tuple(step.replace("--epochs 2", "--epochs 2 --lr 0.011") for step in scenario.steps)
    changed = play(type(scenario)(scenario.name, steps), samples, fast_path)
    for step, words in zip(changed["steps"], scenario.steps, strict=True):
        step["command"] = words
    expected = table["scenarios"]["bilevel"]
    plain = differences(plain_part(expected), plain_part(changed))
    assert [line for line in plain if "config.json" in line] == plain != []
    numeric = differences(numeric_part(expected), numeric_part(changed))
    assert any("models/" in line for line in numeric) and any("statement" in line for line in numeric)
