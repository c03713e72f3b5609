"""The ViT module of our own against that of `transformers`, on the same weights."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import ViTModel

from shardgraph.embedding.backbones.registry import load_backbone
from shardgraph.errors import BackboneError
from tests.embedding.backbones.payloads import pictures


@pytest.fixture(scope="module")
def both(load, hf_vit_folder):
    """Ours and theirs on one image: hidden states by layer, and the final class token."""
    backbone, model = load("vit"), ViTModel.from_pretrained(hf_vit_folder, add_pooling_layer=False).eval()
    pixels = backbone.framing.normalise(torch.from_numpy(backbone.prepare(pictures(1)[0]))[None])
    with torch.inference_mode():
        out = model(pixel_values=pixels.contiguous(), output_hidden_states=True)
        return backbone.network(pixels), out


def test_every_hidden_state_equals_that_of_transformers(both):
    (states, features), theirs = both
    assert len(states) == len(theirs.hidden_states) == 4
    # 1e-5: the same sums, in another order (one product for q, k and v there, three here).
    for ours, other in zip(states, theirs.hidden_states, strict=True):
        assert torch.allclose(ours, other, atol=1e-5)
    assert torch.allclose(features, theirs.last_hidden_state[:, 0], atol=1e-5)


def test_tokens_are_the_input_of_the_last_block_or_the_layer_asked_for(vit_file, both):
    (states, _), _ = both
    for layer, wanted in ((None, states[2]), (-1, states[3]), (0, states[0])):
        backbone = load_backbone(f"vit:{vit_file}", layer=layer, device="cpu")
        tokens, features = backbone.forward(torch.from_numpy(backbone.prepare(pictures(1)[0]))[None])
        assert torch.equal(tokens, wanted) and tokens.shape == (1, 17, 32) and features.shape == (1, 32)


def test_the_shape_is_read_from_the_file_and_its_digest_is_the_identity(load):
    backbone = load("vit")
    assert (len(backbone.network.blocks), backbone.network.blocks[0].attn.heads) == (3, 2)
    assert backbone.framing.height == 32 and backbone.identity["layer"] == -2


def test_files_that_do_not_fit_are_refused(vit_file, tmp_path):
    weights = load_file(vit_file)
    (tmp_path / "torn.safetensors").write_bytes(vit_file.read_bytes()[:-9])
    save_file({"model." + key: value for key, value in weights.items()}, tmp_path / "names.safetensors")
    save_file(weights | {"fc_norm.weight": torch.ones(32)}, tmp_path / "extra.safetensors", {"num_heads": "2"})
    save_file(weights, tmp_path / "heads.safetensors")
    for name, message in (
        ("gone", "must be a readable"),
        ("torn", "must be a readable"),
        ("names", "timm's key names"),
        ("extra", "fc_norm"),
        ("heads", "heads that divide"),
    ):
        with pytest.raises(BackboneError, match=message):
            load_backbone(f"vit:{tmp_path / name}.safetensors", device="cpu")


@pytest.mark.parametrize("options", [{"layer": 4}, {"layer": -5}, {"size": 64}])
def test_options_beyond_the_file_are_refused(vit_file, options):
    with pytest.raises(BackboneError, match="got"):
        load_backbone(f"vit:{vit_file}", device="cpu", **options)
