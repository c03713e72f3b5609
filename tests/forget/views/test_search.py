"""Finding by the beginning of a name, among all samples or among some sources."""

import pytest

from shardgraph.errors import InputError
from shardgraph.forget.views.search import find_names
from tests.strategies import Row, embed

ROWS = [
    Row("a%b", "ant", "ann", "p1"),
    Row("a_1", "bee", "ann", "p1"),
    Row("ab", "cat", "bob", "p2"),
    Row("b", "dog", "bob", ""),
]


@pytest.fixture
def catalogue(create):
    workspace = create()
    workspace.add(embed(ROWS))
    return workspace.context.catalogue


@pytest.mark.parametrize(
    ("kind", "beginning", "sources", "names"),
    [
        ("sample", "a", None, ["a%b", "a_1", "ab"]),
        ("sample", "a_", None, ["a_1"]),  # no wildcard
        ("sample", "a%", None, ["a%b"]),
        ("sample", "a", ("bob",), ["ab"]),
        ("sample", "a", (), []),
        ("subject", "p", None, ["p1", "p2"]),
        ("subject", "p", ("ann",), ["p1"]),
        ("source", "b", None, ["bob"]),
        ("source", "b", ("ann",), []),
        ("sample", "zz", None, []),
    ],
)
def test_what_begins_so_is_found(catalogue, kind, beginning, sources, names):
    assert [one.name for one in find_names(catalogue, kind, beginning, sources)] == names


def test_samples_are_counted_and_the_list_is_bounded(catalogue):
    assert [(one.name, one.samples) for one in find_names(catalogue, "subject", "p")] == [("p1", 2), ("p2", 1)]
    assert len(find_names(catalogue, "sample", "a", most=2)) == 2


@pytest.mark.parametrize(("kind", "beginning"), [("label", "a"), ("sample", "")])
def test_another_kind_or_an_empty_name_is_an_error(catalogue, kind, beginning):
    with pytest.raises(InputError):
        find_names(catalogue, kind, beginning)
