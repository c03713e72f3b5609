"""ImageBackbone: what backbones for images share. Framing turns a decoded image into the input of the network."""

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from shardgraph.embedding.backbones import images
from shardgraph.embedding.backbones.base import Backbone, Bucket
from shardgraph.embedding.records import IMAGE, Payload


@dataclass(frozen=True)
class Framing:
    """From a picture of any size to pixels [height, width, 3], and from those to the network's numbers.

    `fraction` of the short side is kept as a centred square; None stretches the whole picture.
    """

    height: int
    width: int
    fraction: float | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: str = "BICUBIC"

    def pixels(self, image: Image.Image) -> np.ndarray:
        """[height, width, 3] uint8, cropped and resized in one step."""
        box = None if self.fraction is None else _centre(image.size, self.fraction)
        resized = image.resize((self.width, self.height), Image.Resampling[self.resample], box=box)
        return np.array(resized)

    def normalise(self, pixels: Tensor) -> Tensor:
        """uint8 [n, height, width, 3] -> float32 [n, 3, height, width], channels last as they lie."""
        # A row of the picture at a time is faster than a pixel at a time; the bits are equal.
        mean, std = (torch.tensor(part, dtype=torch.float32, device=pixels.device) for part in (self.mean, self.std))
        numbers = pixels.flatten(2).float().div_(255).sub_(mean.repeat(self.width)).div_(std.repeat(self.width))
        return numbers.view(pixels.shape).permute(0, 3, 1, 2)


def _centre(size: tuple[int, int], fraction: float) -> tuple[float, float, float, float]:
    width, height = size
    side = min(width, height) * fraction
    left, top = (width - side) / 2, (height - side) / 2
    return (left, top, left + side, top + side)


class ImageBackbone(Backbone):
    """A backbone for images; subclasses define the network and its framing."""

    modality = IMAGE
    framing: Framing

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"decoding": images.DECODING, **asdict(self.framing)}

    def prepare(self, payload: Payload) -> np.ndarray:
        return self.framing.pixels(images.decode(payload))

    def probe(self, bucket: Bucket) -> np.ndarray:
        shape = (self.framing.height, self.framing.width, 3)
        return np.random.Generator(np.random.Philox(key=7)).integers(0, 256, shape, dtype=np.uint8)

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        return self.embed_pixels(self.framing.normalise(batch))

    @abstractmethod
    def embed_pixels(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised pixels [n, 3, height, width] -> tokens [n, t, d] and features [n, f]."""
