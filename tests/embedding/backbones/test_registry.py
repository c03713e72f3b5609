from pathlib import Path

import pytest

from shardgraph.embedding.backbones.registry import (
    DEFAULTS,
    ENVIRONMENT,
    backbone_like,
    find_location,
    load_backbone,
    names,
)
from shardgraph.errors import BackboneError
from shardgraph.forget.workspace import Workspace


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.mark.parametrize("spec", ["", "resnet50", "hf", "vit:", "minilm:x", "efficientnet-lite7"])
def test_names_nobody_knows_are_answered_with_those_we_know(spec):
    with pytest.raises(BackboneError, match=r"precomputed.*efficientnet-lite0.*minilm.*hf:NAME_OR_PATH.*vit:PATH"):
        load_backbone(spec)


def test_the_defaults_need_no_hub():
    assert set(DEFAULTS) == {"image", "text"} and set(DEFAULTS.values()) <= set(names())


def test_a_location_is_valid_in_any_folder(tmp_path, monkeypatch):
    (tmp_path / "a model").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for spec, path, location in (
        ("vit:a model/x.safetensors", None, f"{tmp_path}/a model/x.safetensors"),
        ("vit", Path("x.safetensors"), f"{tmp_path}/x.safetensors"),
        ("hf:a model", None, f"{tmp_path}/a model"),
        ("hf:~/model", None, f"{tmp_path}/home/model"),
        ("hf:./model", None, f"{tmp_path}/model"),
        ("hf:deep/er/model", None, f"{tmp_path}/deep/er/model"),
        ("hf:google/vit-base-patch16-224", None, "google/vit-base-patch16-224"),
        ("hf:bert-base-uncased", None, "bert-base-uncased"),
        ("timm:vit_tiny_patch16_224", None, None),
        ("timm:vit_tiny_patch16_224", "w.pth", f"{tmp_path}/w.pth"),
        ("minilm", None, None),
        ("registered:net", "python:mine:build", "python:mine:build"),
    ):
        assert find_location(spec, path) == location, spec


def test_the_environment_gives_the_location_that_a_spec_lacks(monkeypatch, vit_file):
    monkeypatch.setenv(ENVIRONMENT, str(vit_file))
    assert load_backbone("vit", device="cpu").name == "vit"
    assert find_location("vit:/other") == "/other" and find_location("minilm") is None
    with pytest.raises(BackboneError, match=r"names its location, got another one, 'x'"):
        find_location("vit:/other", "x")


def test_a_workspace_is_made_and_opened_with_a_path(create, vit_file, tmp_path, monkeypatch):
    moved = vit_file.rename(vit_file.with_name("moved vit.safetensors"))
    try:
        monkeypatch.chdir(moved.parent)
        workspace = create(backbone=f"vit:{moved.name}")
        assert str(moved) in (workspace.root / "backbone.json").read_text()
        assert str(moved.parent) not in (workspace.root / "config.json").read_text()
        with Workspace(workspace.root, backbone_path=moved) as again:
            assert again.context.backbone_path == str(moved)
        with pytest.raises(BackboneError, match=r"gone.*which does not exist.*found none"):
            backbone_like(workspace.config.backbone, str(tmp_path / "gone.safetensors"))
    finally:
        moved.rename(vit_file)
