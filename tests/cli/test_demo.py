"""The demo: it ends with two equal digests."""

from pathlib import Path

from tests.cli.conftest import run


def test_the_demo_ends_with_equal_models(tmp_path: Path):
    done = run("demo", "--keep", tmp_path / "kept", "--json")
    story = done.json
    assert done.code == 0 and story["equal"] and story["verified"]["ok"]
    assert story["forgot"]["model_digest"] == story["never_saw"]["model_digest"] != story["learned"]["model_digest"]
    assert min(story["learned"]["accuracy"], story["forgot"]["accuracy"]) > 0.85
    assert [c["number"] for c in story["certificates"]] == [1, 2]
    assert run("verify", tmp_path / "kept" / "learned-then-forgot").code == 0
    assert run("demo", "--keep", tmp_path / "kept").code == 1  # it is there already
