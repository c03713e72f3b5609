"""Only storage knows SQL."""

import ast
import re
from pathlib import Path

import pytest

import shardgraph

PACKAGE = Path(shardgraph.__file__).parent
OUTSIDE = sorted(path for path in PACKAGE.rglob("*.py") if "storage" not in path.relative_to(PACKAGE).parts)
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|DROP|ALTER) [A-Za-z*(]|json_extract\(")


def statements(path):
    """The strings of a module, those in f-strings included, that read like SQL."""
    strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return [text for text in strings if isinstance(text, str) and STATEMENT.match(text)]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_outside_storage_contains_sql(path):
    assert statements(path) == []


def test_the_search_itself_works():
    assert len(statements(PACKAGE / "storage" / "tables" / "requests.py")) > 20
