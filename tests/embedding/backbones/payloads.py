"""Synthetic images and texts, the same each time."""

import io

import numpy as np
from PIL import Image


def picture(size: int = 224) -> np.ndarray:
    """Two gradients and stripes [size, size, 3]: the synthetic image that recorded values belong to."""
    y, x = np.mgrid[:size, :size]
    channels = [x * 255 // (size - 1), y * 255 // (size - 1), (x + y) * 7 % 256]
    return np.stack(channels, axis=-1).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def pictures(n: int) -> list[bytes]:
    """n different JPEGs of different sizes."""
    rng = np.random.default_rng(5)
    shapes = [(int(rng.integers(40, 90)), int(rng.integers(40, 90)), 3) for _ in range(n)]
    return [encoded(rng.integers(0, 256, shape, dtype=np.uint8), "JPEG") for shape in shapes]


def texts(n: int) -> list[str]:
    """n different texts of 1 to 20 words: some fill their bucket, some do not."""
    speech = "where is my card the payment did not arrive refund exchange rate cash top up"
    words = speech.split()
    rng = np.random.default_rng(6)
    return [" ".join(rng.choice(words, size=1 + i % 20)) for i in range(n)]
