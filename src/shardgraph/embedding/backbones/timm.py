"""timm:NAME: an image model of `timm`, with the weights that timm downloads or with those of a local file.

Tokens are what `forward_features` returns (a map row by row), features what the classifier would see. Preprocessing is
the model's own: size, share of the short side, mean, standard deviation, interpolation. A local file is a state dict of
the model, `.safetensors` or saved by `torch.save`; all weights but those of the classifier must be in it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from shardgraph.embedding.backbones.packaged import tensors_digest
from shardgraph.embedding.backbones.vision import Framing, ImageBackbone
from shardgraph.errors import BackboneError

try:
    import timm
except RuntimeError as problem:  # torchvision was built for another torch
    raise ImportError(f"timm cannot be imported: {problem}") from problem


class Timm(ImageBackbone):
    """A model of `timm`; `location` is a file with weights, by default timm downloads them."""

    concurrent = False  # some models keep state of a pass

    def __init__(
        self,
        spec: str,
        *,
        location: str | None = None,
        layer: int | None = None,
        size: int | None = None,
        device: str | None = None,
        dtype: str = "float16",
    ) -> None:
        if layer not in (None, -1):
            raise BackboneError(f"{spec} gives its last features (layer -1), got layer {layer}")
        model = _model(spec.removeprefix("timm:"), location)
        super().__init__(spec, weights=tensors_digest(b"", model.state_dict()), layer=-1, device=device, dtype=dtype)
        self.framing = _framing(model, size)
        self.network = model.to(self.device)

    def embed_pixels(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.network.forward_features(pixels.contiguous())
        features = self.network.forward_head(hidden, pre_logits=True)
        if hidden.ndim == 4 and "NHWC" not in str(getattr(self.network, "output_fmt", "NCHW")):
            hidden = hidden.permute(0, 2, 3, 1)
        return hidden.flatten(1, -2), features.flatten(1)


def _model(name: str, location: str | None) -> Any:
    try:
        model = timm.create_model(name, pretrained=location is None, num_classes=0)
    except Exception as problem:  # an unknown name, a hub that cannot be reached
        advice = "a file with its weights can be given with --backbone-path"
        raise BackboneError(f"'timm:{name}' could not be loaded ({problem}); {advice}") from problem
    if location is not None:
        _fill(model, name, location)
    return model.float().eval().requires_grad_(False)


def _fill(model: Any, name: str, location: str) -> None:
    """Load a file's weights; an error unless they are all there, or if it has others than the classifier's."""
    classifiers = model.pretrained_cfg.get("classifier") or ()
    unused = tuple(f"{part}." for part in ([classifiers] if isinstance(classifiers, str) else classifiers))
    weights = {key: tensor for key, tensor in _read(location).items() if not (unused and key.startswith(unused))}
    try:
        model.load_state_dict(weights)
    except RuntimeError as problem:
        raise BackboneError(f"'{location}' must hold the weights of timm's {name}: {problem}") from problem


def _read(location: str) -> Mapping[str, Tensor]:
    try:
        if Path(location).suffix == ".safetensors":
            return load_file(location)
        found = torch.load(location, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch.load raises nearly anything on other files
        kind = type(problem).__name__
        raise BackboneError(f"'{location}' must be a readable file of weights, got {kind}: {problem}") from problem
    state = found.get("state_dict", found) if isinstance(found, dict) else {}
    if not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise BackboneError(f"'{location}' must hold a state dict, got {type(found).__name__}")
    return dict(state)


def _framing(model: Any, size: int | None) -> Framing:
    rules = timm.data.resolve_model_data_config(model)
    _, height, width = rules["input_size"]
    if size is not None:
        height = width = size
    crop = rules.get("crop_mode", "center")
    if crop not in ("center", "squash"):
        raise BackboneError(f"a timm model must crop its images at the centre or squash them, got {crop!r}")
    fraction = None if crop == "squash" or height != width else float(rules["crop_pct"])
    resample = str(rules["interpolation"]).upper()
    return Framing(height, width, fraction, tuple(rules["mean"]), tuple(rules["std"]), resample)
