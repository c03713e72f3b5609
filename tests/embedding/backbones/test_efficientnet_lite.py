"""EfficientNet-Lite against values of another implementation, and on real photographs."""

from pathlib import Path

import pytest
import sklearn.datasets
import torch

from shardgraph.embedding.backbones import packaged
from shardgraph.embedding.backbones.efficientnet_lite import NATIVE_SIZES
from shardgraph.embedding.backbones.registry import load_backbone
from shardgraph.errors import BackboneError
from tests.embedding.backbones.payloads import picture

# Pooled features of `picture(native size)` from the package efficientnet_lite_pytorch 0.1.0 on the
# same weights: the four largest by index, and the sum of all 1280. Made once, on torch 2.13.
RECORDED = {
    "efficientnet-lite0": ({113: 5.8991, 897: 4.8809, 512: 3.8337, 949: 3.7164}, 169.174),
    "efficientnet-lite1": ({918: 5.3982, 605: 4.3265, 1073: 3.3996, 749: 3.1923}, 154.483),
    "efficientnet-lite2": ({302: 3.9031, 1145: 3.6210, 1100: 3.6210, 818: 2.7678}, 115.806),
}
PALACE = 698  # of ImageNet's thousand classes


@pytest.fixture(scope="module", params=RECORDED)
def backbone(request):
    return load_backbone(request.param, size=NATIVE_SIZES[request.param], device="cpu", dtype="float32")


def test_features_equal_those_of_another_implementation(backbone):
    features, total = RECORDED[backbone.name]
    _, found = backbone.forward(torch.from_numpy(picture(backbone.framing.height))[None])
    # 1e-3: the other implementation keeps batch norms apart, and its values were recorded with 4 digits.
    assert {i: float(found[0, i]) for i in features} == pytest.approx(features, abs=1e-3)
    assert float(found.sum()) == pytest.approx(total, abs=2e-2)


def test_a_photograph_of_a_palace_is_one(backbone):
    photograph = Path(sklearn.datasets.__file__).parent / "images" / "china.jpg"
    _, features = backbone.forward(torch.from_numpy(backbone.prepare(photograph))[None])
    assert int(backbone.network.classifier(features).argmax()) == PALACE


def test_tokens_are_the_last_blocks_map(load):
    tokens, features = load("lite0").forward(torch.from_numpy(picture())[None])
    assert tokens.shape == (1, 49, 320) and features.shape == (1, 1280)
    pooled = load("lite0").network.head(tokens.view(1, 7, 7, 320).permute(0, 3, 1, 2)).mean(dim=(2, 3))
    assert torch.allclose(pooled, features, atol=1e-5), "the head makes the features from the tokens"


def test_weights_that_are_not_the_known_ones_are_refused(monkeypatch):
    monkeypatch.setattr(packaged, "file_digest", lambda path: "0" * 64)
    with pytest.raises(BackboneError, match="must have SHA-256 57934424"):
        load_backbone("efficientnet-lite0", device="cpu")


@pytest.mark.parametrize("options", [{"layer": 3}, {"size": 8}, {"dtype": "float64"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BackboneError, match="got"):
        load_backbone("efficientnet-lite0", device="cpu", **options)
