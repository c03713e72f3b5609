"""hf:NAME_OR_PATH: any vision or text transformer that `transformers` knows, attached at any layer.

Tokens are `hidden_states[layer]`; -2, the default, is the input of the last block, where the paper
attaches. Features come from the last hidden state: the class token where an image model has one, else
the mean of the sample's own tokens. Weights are used in float32, whatever the file holds.
"""

from typing import Any

from torch import Tensor
from transformers import AutoTokenizer

from shardgraph.data.backbones.hf_loading import (
    CONCURRENT,
    class_token,
    framing_of,
    load_model,
    loading,
    weights_digest,
)
from shardgraph.data.backbones.text import TextBackbone, masked_mean
from shardgraph.data.backbones.vision import ImageBackbone
from shardgraph.digest import digest
from shardgraph.errors import BackboneError

DEFAULT_LAYER = -2
_SPEECH = "Ça va? The 2 naïve QUICK foxes\tjump over 東京's e-mail: a_b@c.d (#42) 🦊."


class HfText(TextBackbone):
    """A text transformer; all its tokens, the special ones too."""

    concurrent = CONCURRENT

    def __init__(self, name: str, model: Any, tokenizer: Any, *, weights: str, most: int, **options: Any) -> None:
        super().__init__(name, weights=weights, **options)
        self.model, self.tokenizer, self.most = model.to(self.device), tokenizer, most

    @property
    def tokenizer_digest(self) -> str:
        """By behaviour, so that a library that stores the same rules otherwise does not change it."""
        vocabulary = repr(sorted(self.tokenizer.get_vocab().items()))
        return digest(vocabulary, repr(self.prepare(_SPEECH).tolist()))

    def embed_tokens(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        out = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        return _layer(self, out), masked_mean(out.last_hidden_state, mask)


class HfVision(ImageBackbone):
    """A vision transformer (or a convolutional network: its map, row by row)."""

    concurrent = CONCURRENT

    def __init__(self, name: str, model: Any, framing: Any, *, weights: str, **options: Any) -> None:
        super().__init__(name, weights=weights, **options)
        self.model, self.framing, self.has_class_token = model.to(self.device), framing, class_token(model)

    def embed_pixels(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        out = self.model(pixel_values=pixels.contiguous(), output_hidden_states=True)
        last = _as_tokens(out.last_hidden_state)
        return _layer(self, out), last[:, 0] if self.has_class_token else last.mean(dim=1)


def load(spec: str, *, layer: int | None = None, size: int | None = None, **options: Any) -> HfText | HfVision:
    """`hf:NAME_OR_PATH` from a folder, the local cache, or the hub if it can be reached."""
    path = spec.removeprefix("hf:")
    model, missing = load_model(path)
    name = f"hf:{model.config.model_type}"
    options |= {"layer": DEFAULT_LAYER if layer is None else layer, "weights": weights_digest(model, missing)}
    if getattr(model.config, "image_size", None) or getattr(model.config, "num_channels", None):
        return HfVision(name, model, framing_of(path, model.config, size), **options)
    if not getattr(model.config, "vocab_size", None):
        raise BackboneError(f"'{path}' must be a vision or a text model, got a {model.config.model_type}")
    with loading(path):
        tokenizer = AutoTokenizer.from_pretrained(path)
    most = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512), 512)
    return HfText(name, model, tokenizer, most=most, **options)


def _layer(backbone: HfText | HfVision, out: Any) -> Tensor:
    try:
        return _as_tokens(out.hidden_states[backbone.layer])
    except IndexError:
        depth = len(out.hidden_states)
        message = f"layer must be from {-depth} to {depth - 1} for {backbone.name}, got {backbone.layer}"
        raise BackboneError(message) from None


def _as_tokens(hidden: Tensor) -> Tensor:
    """[n, t, d] as it is; a map [n, d, h, w] row by row."""
    return hidden if hidden.ndim == 3 else hidden.permute(0, 2, 3, 1).flatten(1, 2)
