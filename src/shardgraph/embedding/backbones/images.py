"""Decoding of image files: upright RGB pixels, or an error.

The pixels depend on the encoded bytes and on the version of Pillow alone: integer arithmetic, no colour management, no
metadata but the EXIF orientation.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from shardgraph.embedding.records import Payload, content
from shardgraph.errors import InputError

MAX_PIXELS = 89_478_485  # what Pillow starts to warn about: 256 MiB of RGB
DRAFT_SIDE = 1024  # JPEGs are decoded at 1/2, 1/4 or 1/8 while their short side stays above this
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "ICO", "TGA")
_BACKGROUND = (255, 255, 255)
DECODING = {"background": "white", "draft_side": DRAFT_SIDE, "frame": 0, "upright": True}  # for identities


def decode(payload: Payload) -> Image.Image:
    """The first frame of an encoded image, upright, as RGB; `InputError` if it cannot be read."""
    if isinstance(payload, str | np.ndarray):
        raise InputError("an image must be given as bytes or as a path, got text")
    if payload == b"":
        raise InputError("an image must be there, got none")
    file = _file(payload)  # an unreachable URL is no damaged image
    try:
        with Image.open(file, formats=_formats()) as image:
            return _upright_rgb(_within_limits(image))
    except InputError:
        raise
    except Exception as problem:  # Pillow's plugins raise nearly anything on damaged files
        raise InputError(f"an image must be readable, got {type(problem).__name__}: {problem}") from problem


def _file(payload: Payload) -> io.BytesIO | Path:
    return payload if isinstance(payload, Path) else io.BytesIO(content(payload))


def _formats() -> list[str]:
    """The formats that we read and this Pillow supports; no PostScript and the like, which run programs."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def _within_limits(image: Image.Image) -> Image.Image:
    """The image, not yet decoded, if it has pixels but not too many; a large JPEG set to decode smaller."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise InputError(f"an image must have at most {MAX_PIXELS:,} pixels, got {width:,} x {height:,}")
    if image.format in ("JPEG", "MPO") and min(width, height) > DRAFT_SIDE:
        scale = DRAFT_SIDE / min(width, height)
        image.draft(image.mode, (round(width * scale), round(height * scale)))
    return image


def _upright_rgb(image: Image.Image) -> Image.Image:
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I"):
        return _from_16_bit(image)
    if image.mode == "F":
        raise InputError("an image must hold integers, got floats, whose range nobody can know")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        opaque = Image.new("RGBA", image.size, (*_BACKGROUND, 255))
        image = Image.alpha_composite(opaque, image.convert("RGBA"))
    if image.mode == "RGB":
        image.load()  # before the file is closed
        return image
    return image.convert("RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    """16-bit grey to 8 bits by value, where Pillow's own conversion would clip at 255."""
    grey = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
    return Image.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")
