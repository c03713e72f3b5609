"""The report: one file, nothing from the network, no sample named, everything escaped."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import arrays, run


class Page(HTMLParser):
    """The tags of a page, which must close what they open, and what they point at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)
        self.targets += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report(ws: Path, out: Path) -> str:
    done = run("report", ws, "--out", out, "--json")
    assert done.code == 0 and done.json["report"] == str(out), done.out
    return out.read_text()


def test_a_report_stands_alone_and_names_no_sample(ws: Path, tmp_path: Path):
    run("forget", ws, "--yes", "--sample", "s-001")
    text = report(ws, tmp_path / "report.html")
    page = Page(text)
    assert page.open == [] and page.targets == []
    assert not re.search(r"https?:|<script|@import|<link", text)
    assert not re.search(r"s-\d\d\d", text)
    assert run("status", ws, "--json").json["model_digest"] in text
    for words in (
        "The shard graph",
        "The cost of forgetting",
        "What it does not prove",
        "Certificate 1",
        "<svg",
        "viewport",
    ):
        assert words in text


def test_a_report_of_withdrawn_groups_and_of_a_new_workspace(ws: Path, tmp_path: Path):
    run("forget", ws, "--yes", "--sample", "s-001", "--instant")
    assert "withdrawn and waits for repair" in report(ws, tmp_path / "withdrawn.html")
    run("init", tmp_path / "new", "--seed", 1)
    assert "not trained yet" in report(tmp_path / "new", tmp_path / "new.html")


@pytest.mark.parametrize("labels", [["ant", "bee", "cat", "dog"], None], ids=["all", "all but those held out"])
def test_a_report_of_a_workspace_that_forgot_everything(ws: Path, tmp_path: Path, labels: list[str] | None):
    held = [str(i) for i, split in zip(arrays()["ids"], arrays()["split"], strict=True) if split == "train"]
    flags = [("--label", label) for label in labels] if labels else [("--sample", name) for name in held]
    assert run("forget", ws, "--yes", *(word for flag in flags for word in flag)).code == 0
    text = report(ws, tmp_path / "report.html")
    assert "Every training sample was forgotten" in text and "Certificate 1" in text and "The shard graph" not in text
    assert Page(text).open == []


@pytest.mark.parametrize("edges", [[], [["a<b>", "web"], ["bob", "web"]]], ids=["cards", "a wheel"])
def test_names_are_escaped_and_both_drawings_are_drawn(edges: list, tmp_path: Path):
    data = arrays()
    data["sources"] = np.array([("a<b>", "bob", "web")[i % 3] for i in range(len(data["ids"]))])
    np.savez(tmp_path / "data.npz", **data)
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps({"shards": ["a<b>", "bob", "web"], "edges": edges}))
    ws = tmp_path / "ws"
    run("init", ws, "--seed", 1)
    run("add", ws, tmp_path / "data.npz")
    assert run("train", ws, "--topology", graph, "--epochs", 1).code == 0
    text = report(ws, tmp_path / "report.html")
    assert "a&lt;b&gt;" in text and "a<b>" not in text and Page(text).open == []
    assert ("marker-end" in text) == bool(edges) and text.count('<circle class="shard') >= 3
