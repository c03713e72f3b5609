"""vit:PATH: a Vision Transformer from a safetensors file in timm's key names, any size.

Tokens (class token first) are the hidden state at `layer`, -2 by default: the input of the last
block, where the paper attaches. Features are the class token after the last norm. Inputs are
(x - 0.5) / 0.5, bicubic, 0.9 of the short side, as for timm's augreg checkpoints.
"""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from shardgraph.data.backbones.packaged import file_digest
from shardgraph.data.backbones.vision import Framing, ImageBackbone
from shardgraph.data.backbones.vit_network import VitNetwork, shape_of
from shardgraph.errors import BackboneError


class Vit(ImageBackbone):
    """A Vision Transformer file; heads have 64 numbers unless its metadata has `num_heads`."""

    def __init__(
        self,
        spec: str,
        *,
        layer: int | None = None,
        size: int | None = None,
        device: str | None = None,
        dtype: str = "float16",
    ) -> None:
        path, layer = Path(spec.removeprefix("vit:")).expanduser(), -2 if layer is None else layer
        weights, heads = _read(path)
        shape = shape_of(weights, heads)
        if not -shape.depth - 1 <= layer <= shape.depth:
            raise BackboneError(f"layer must be from {-shape.depth - 1} to {shape.depth}, got {layer}")
        if size not in (None, shape.size):
            raise BackboneError(f"'{path.name}' has positions for {shape.size} pixels, got size {size}")
        super().__init__("vit", weights=file_digest(path), layer=layer, device=device, dtype=dtype)
        self.framing = Framing(shape.size, shape.size, 0.9, (0.5,) * 3, (0.5,) * 3)
        self.network = VitNetwork(weights, shape).to(self.device)

    def embed_pixels(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        states, features = self.network(pixels.contiguous())
        return states[self.layer], features


def _read(path: Path) -> tuple[dict[str, Tensor], int | None]:
    """A file's tensors and the number of heads its metadata names, if it does."""
    try:
        with safe_open(path, framework="pt") as file:
            heads = (file.metadata() or {}).get("num_heads")
            return {key: file.get_tensor(key) for key in file.keys()}, int(heads) if heads else None  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as problem:
        raise BackboneError(f"'vit:{path}' must be a readable .safetensors file, got {problem}") from problem
