"""Names on pages: escaped, and with nothing hidden in them."""

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.service.pages.rendering import format_name
from tests.service.pages.conftest import found, preview
from tests.strategies import embed, many


def test_names_are_escaped(service, visit):
    answer = found(visit(), "sample", "<script>alert(1)</script>")
    assert answer.status_code == 200 and "<script>alert" not in answer.text and "&lt;script&gt;" in answer.text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\u202egnp.exe", "a⟨U+202E⟩gnp.exe"),
        ("a\u200bb\nc\x00", "a⟨U+200B⟩b⟨U+000A⟩c⟨U+0000⟩"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        (" a b  ", "⟨U+0020⟩a b⟨U+0020⟩⟨U+0020⟩"),
        (" ", "⟨U+0020⟩"),
        ("<b>", "&lt;b&gt;"),
        ("שלום é 名", "שלום é 名"),
    ],
)
def test_nothing_hides_in_a_name(name, shown):
    assert format_name(name) == f"<bdi>{shown}</bdi>"


def test_a_name_is_as_visible_where_it_is_confirmed_as_where_it_is_found(root, visit):
    row = many(1)[0]._replace(id="a\u202eb", source="s\u202et", label="ant")
    with Workspace(root) as workspace:
        workspace.add(embed([row]))
        workspace.consumers.grant("c\u202ed", sources=["s\u202et"])
    me = visit()
    pages = [
        found(me, "sample", "a\u202e"),
        found(me, "source", "s"),
        preview(me, "sample", row.id),
        preview(me, "source", row.source),
        me.get("/pages/rights"),
        me.get("/pages/rights/of", params={"consumer": "c\u202ed"}),
    ]
    for page in pages:
        assert page.status_code == 200 and "⟨U+202E⟩" in page.text, page.url
        assert "\u202e" not in page.text.replace('value="a\u202e"', ""), page.url
