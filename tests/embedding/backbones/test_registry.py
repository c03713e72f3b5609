import pytest

from shardgraph.embedding.backbones.registry import DEFAULTS, load_backbone, names
from shardgraph.errors import BackboneError


@pytest.mark.parametrize("spec", ["", "resnet50", "hf", "vit:", "minilm:x", "efficientnet-lite7"])
def test_names_nobody_knows_are_answered_with_those_we_know(spec):
    with pytest.raises(BackboneError, match=r"precomputed.*efficientnet-lite0.*minilm.*hf:NAME_OR_PATH.*vit:PATH"):
        load_backbone(spec)


def test_the_defaults_need_no_hub():
    assert set(DEFAULTS) == {"image", "text"} and set(DEFAULTS.values()) <= set(names())
