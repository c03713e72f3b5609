"""ARCHITECTURE.md is true: the paths that it names exist, it answers what it must, and its walks are those of today."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MOST = {"train": 30, "forget": 32, "POST /requests": 45}
ASKED = (
    "topology",
    "role",
    "column of the catalogue",
    "field of the certificate",
    "backbone",
    "page",
    "adapter",
    "executor",
    "command",
    "metric",
)
SHORT = ("intake/", "storage/", "build/", "learn/", "erase/", "queue/", "service/")


def tracer():
    """docs/walks.py as a module."""
    spec = importlib.util.spec_from_file_location("walks", ROOT / "docs" / "walks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_path_that_it_names_exists():
    named = set(re.findall(r"`((?:src|tests|docs|experiments|benchmarks)/[\w/.]*)`", TEXT))
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []
    short = {path for path in re.findall(r"`(\w+/[\w/]+\.py)`", TEXT) if path.startswith(SHORT)}
    package = ROOT / "src" / "shardgraph"
    assert (
        short
        and [path for path in short if not (package / path).exists() and not (package / "forget" / path).exists()] == []
    )


@pytest.mark.parametrize("what", ASKED)
def test_it_says_where_to_add(what):
    row = next(line for line in TEXT.splitlines() if re.match(rf"\| (a|an) {what} \|", line))
    assert re.findall(r"`(src/[\w/.]+)`", row.split("|")[2])


def test_its_walks_are_as_short_as_promised_and_name_files_that_exist():
    walks = tracer().written(TEXT)
    assert {walk: len(files) <= MOST[walk] for walk, files in walks.items()} == dict.fromkeys(MOST, True)
    files = {file for found in walks.values() for file in found}
    assert [file for file in files if not (ROOT / "src" / "shardgraph" / file).exists()] == []


@pytest.mark.slow
def test_its_walks_are_those_of_today():
    module = tracer()
    today, listed = module.walks(), module.written(TEXT)
    for walk in ("train", "forget"):
        assert set(today[walk]) == listed[walk]
    # on a busy machine the watcher and the worker do more beside the request: look again, wait, measure the model
    assert len(set(today["POST /requests"]) ^ listed["POST /requests"]) <= 4
