"""The documents: the README's snippet runs, links and named files exist, and formats match the code."""

import re
import sqlite3
from pathlib import Path

import pytest

import shardgraph

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_snippet_of_the_readme_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = (ROOT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found and text[: found.end()].count("\n") <= 30
    monkeypatch.chdir(tmp_path)
    exec(compile(found[1], "README.md", "exec"), {})
    before, after, certificate = capsys.readouterr().out.splitlines()
    assert before and after and certificate.startswith("1 exact")


SNIPPETS = [
    pytest.param(document.name, found[1], id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, found in enumerate(re.finditer(r"```python\n(.*?)```", document.read_text(), re.DOTALL), start=1)
]


@pytest.mark.parametrize(("name", "snippet"), SNIPPETS)
def test_every_python_snippet_runs_as_it_stands(
    name: str, snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, name, "exec"), {})


def test_there_are_snippets_beside_the_readmes():
    assert len(SNIPPETS) > 3


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path):
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
    assert not [link for link in links if not (path.parent / link).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_only_files_of_the_repository_that_exist(path: Path):
    named = set(re.findall(r"`((?:src|tests|docs|benchmarks|experiments)/[\w/.]+)`", path.read_text()))
    assert not [name for name in named if not (ROOT / name).exists()]


def test_every_public_name_is_there():
    for name in shardgraph.__all__:
        assert getattr(shardgraph, name) is not None
    assert set(shardgraph.__all__) <= set(dir(shardgraph))


def test_the_format_document_names_every_file(tmp_path: Path):
    from shardgraph import Workspace

    words = (ROOT / "docs" / "format.md").read_text()
    with Workspace.create(tmp_path / "ws", seed=1):
        pass
    names = {path.name for path in (tmp_path / "ws").iterdir()} - {"catalog.sqlite-wal", "catalog.sqlite-shm"}
    assert not [name for name in names if name not in words]


def test_the_catalogue_in_the_document_is_the_catalogue(ws: Path):
    db = sqlite3.connect(ws / "catalog.sqlite")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    db.close()
    words = (ROOT / "docs" / "format.md").read_text()
    assert not [name for name in tables - {"sqlite_sequence"} if f"| `{name}` |" not in words]
