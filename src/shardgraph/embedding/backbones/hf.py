"""hf:NAME_OR_PATH: any vision or text transformer of `transformers`, attached at any layer.

Tokens are `hidden_states[layer]`; the default, -2, is the input of the last block, where the paper attaches. Features
come from the last hidden state: the class token if an image model has one, else the mean of the sample's own tokens.
Weights are used in float32, whatever the file holds. Models are loaded from a folder, the local cache or the hub;
errors name the choices that work offline.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import AutoModel, AutoTokenizer
from transformers.image_processing_base import ImageProcessingMixin
from transformers.utils import logging

from shardgraph.digest import canonical_json, digest
from shardgraph.embedding.backbones.packaged import tensors_digest
from shardgraph.embedding.backbones.text import TextBackbone, masked_mean
from shardgraph.embedding.backbones.vision import Framing, ImageBackbone
from shardgraph.errors import BackboneError

# Since version 5 hidden states are collected per thread; before, two passes at once mixed theirs up.
CONCURRENT = importlib.util.find_spec("transformers.utils.output_capturing") is not None
_OFFLINE = (
    "offline choices: 'efficientnet-lite0' (images) and 'minilm' (text), whose weights pip brings, "
    "'hf:FOLDER' with a model saved by save_pretrained, or 'vit:FILE.safetensors'"
)
_RESAMPLE = {0: "NEAREST", 1: "LANCZOS", 2: "BILINEAR", 3: "BICUBIC"}
DEFAULT_LAYER = -2
_SAMPLE_TEXT = "Ça va? The 2 naïve QUICK foxes\tjump over 東京's e-mail: a_b@c.d (#42) 🦊."
_NOT_DIGESTED = {
    "_name_or_path",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "id2label",
    "label2id",
    "architectures",
}


class HfText(TextBackbone):
    """A text transformer; all its tokens, the special ones too."""

    concurrent = CONCURRENT

    def __init__(self, name: str, model: Any, tokenizer: Any, *, weights: str, most: int, **options: Any) -> None:
        super().__init__(name, weights=weights, **options)
        self.model, self.tokenizer, self.most = model.to(self.device), tokenizer, most

    @property
    def tokenizer_digest(self) -> str:
        """A digest of the tokenizer's vocabulary and behaviour, which does not depend on how a library stores it."""
        vocabulary = repr(sorted(self.tokenizer.get_vocab().items()))
        return digest(vocabulary, repr(self.prepare(_SAMPLE_TEXT).tolist()))

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
    if Path(path).is_absolute() and not Path(path).is_dir():  # a name on the hub is not absolute
        raise BackboneError(f"'hf:{path}' must be a folder with a model saved by save_pretrained, there is none")
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


@contextmanager
def loading(path: str) -> Iterator[None]:
    """No messages while a model is loaded; errors are raised as `BackboneError`."""
    log: Any = logging  # some of its functions have no types
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    try:
        log.set_verbosity_error()
        log.disable_progress_bar()
        yield
    except (OSError, ValueError, ImportError, KeyError) as problem:
        first = str(problem).strip().split("\n")[0]
        raise BackboneError(f"'hf:{path}' could not be loaded ({first}); {_OFFLINE}") from problem
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


def load_model(path: str) -> tuple[Any, frozenset[str]]:
    """The encoder of a model in float32, and the names of weights its file lacks (poolers, unused)."""
    with loading(path):
        model, info = AutoModel.from_pretrained(path, output_loading_info=True)
    missing = frozenset(info["missing_keys"])
    lacking = sorted(name for name in missing if "pooler" not in name)
    if lacking:
        raise BackboneError(f"'{path}' must hold all weights, it lacks {len(lacking)}: {', '.join(lacking[:3])}")
    encoder = model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model
    return encoder.float().eval().requires_grad_(False), missing


def weights_digest(model: Any, missing: frozenset[str]) -> str:
    """SHA-256 over the configuration and all tensors by name; it does not depend on the file's layout."""
    config = {k: v for k, v in model.config.to_dict().items() if k not in _NOT_DIGESTED}
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in missing}
    return tensors_digest(canonical_json(_plain(config)), tensors)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def class_token(model: Any) -> bool:
    """Whether the first token of an image model is a class token."""
    return any(name.rsplit(".", 1)[-1] in ("cls_token", "class_embedding") for name in model.state_dict())


def framing_of(path: str, config: Any, size: int | None) -> Framing:
    """The model's own preprocessing, read from its file; (x - 0.5) / 0.5 of the stretched picture without one."""
    try:
        rules, _ = ImageProcessingMixin.get_image_processor_dict(path)
    except OSError:
        rules = {}
    asked = rules.get("size") or getattr(config, "image_size", None) or 224
    height, width, fraction = _extent(asked, rules)
    if size is not None:
        height = width = size
    normalised = rules.get("do_normalize", True)
    return Framing(
        height,
        width,
        fraction,
        mean=tuple(rules.get("image_mean") or [0.5] * 3) if normalised else (0.0,) * 3,
        std=tuple(rules.get("image_std") or [0.5] * 3) if normalised else (1.0,) * 3,
        resample=_RESAMPLE.get(rules.get("resample", 3), "BICUBIC"),
    )


def _extent(asked: Any, rules: dict[str, Any]) -> tuple[int, int, float | None]:
    """Height, width and the share of the short side that is kept (None: stretched)."""
    edges = asked if isinstance(asked, dict) else {"height": asked, "width": asked}
    crop = rules.get("crop_size") if rules.get("do_center_crop") else None
    if crop is not None:
        side = crop["height"] if isinstance(crop, dict) else crop
        return side, side, min(1.0, side / edges.get("shortest_edge", edges.get("height", side)))
    if "shortest_edge" in edges:
        return edges["shortest_edge"], edges["shortest_edge"], 1.0
    return edges["height"], edges["width"], None


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
