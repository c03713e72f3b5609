"""Originals: the images and texts that samples were made from, if somebody keeps them in a folder.

A sample's id is the file's path below that folder, as the reader of folders gives it, or that path without its suffix.
Images are drawn again, small: the file itself is never shown.
"""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

SIDE, LETTERS = 160, 400  # pixels of an image, characters of a text
MAX_SHOWN, MAX_BYTES = 8, 32 << 20
_IMAGES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
_TEXTS = {".txt", ".md"}


@dataclass(frozen=True)
class Original:
    """What a sample was made from: an image as a data URL, or the beginning of a text."""

    sample: str
    image: str = ""
    text: str = ""


class Originals:
    """A folder of originals, or none."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder.resolve() if folder else None

    def show(self, samples: Iterable[str]) -> list[Original]:
        """The first few of these samples that have an original."""
        found: list[Original] = []
        for sample in samples if self._folder else ():
            if (one := self._original(sample)) is not None:
                found.append(one)
            if len(found) == MAX_SHOWN:
                break
        return found

    def _original(self, sample: str) -> Original | None:
        try:
            path = self._path(sample)
            if path is None or path.stat().st_size > MAX_BYTES:
                return None
            if path.suffix.lower() in _IMAGES:
                return Original(sample, image=_thumbnail(path))
            if path.suffix.lower() in _TEXTS:
                return Original(sample, text=path.read_bytes()[: 4 * LETTERS].decode("utf-8", "replace")[:LETTERS])
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
            return None  # an id that is no path, or a file that is no image: Pillow raises SyntaxError for some
        return None

    def _path(self, sample: str) -> Path | None:
        """The file of that name, with or without a suffix; never one outside of the folder."""
        assert self._folder is not None
        for suffix in ("", *sorted(_IMAGES | _TEXTS)):
            path = (self._folder / (sample + suffix)).resolve()
            if path.is_relative_to(self._folder) and path.is_file():
                return path
        return None


def _thumbnail(path: Path) -> str:
    with Image.open(path) as image:
        image.thumbnail((SIDE, SIDE))
        out = io.BytesIO()
        image.convert("RGB").save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
