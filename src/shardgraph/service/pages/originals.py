"""Originals: the pictures and texts that samples were made of, where somebody kept them in a folder.

A sample's id is the file's path below that folder, as the reader of folders gives it, or that without its ending.
Pictures are drawn again, small: what is shown is never the file itself.
"""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

SIDE, LETTERS, MOST = 160, 400, 8
MOST_BYTES = 32 << 20
_PICTURES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
_TEXTS = {".txt", ".md"}


@dataclass(frozen=True)
class Original:
    """What a sample looked like: a picture as a data URL, or the beginning of a text."""

    sample: str
    picture: str = ""
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
            if len(found) == MOST:
                break
        return found

    def _original(self, sample: str) -> Original | None:
        try:
            path = self._path(sample)
            if path is None or path.stat().st_size > MOST_BYTES:
                return None
            if path.suffix.lower() in _PICTURES:
                return Original(sample, picture=_small(path))
            if path.suffix.lower() in _TEXTS:
                return Original(sample, text=path.read_bytes()[: 4 * LETTERS].decode("utf-8", "replace")[:LETTERS])
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
            return None  # a name that is no path, or a file that is no picture: Pillow calls some of those bad syntax
        return None

    def _path(self, sample: str) -> Path | None:
        """The file of that name, or of that name with an ending; never one outside of the folder."""
        assert self._folder is not None
        for ending in ("", *sorted(_PICTURES | _TEXTS)):
            path = (self._folder / (sample + ending)).resolve()
            if path.is_relative_to(self._folder) and path.is_file():
                return path
        return None


def _small(path: Path) -> str:
    with Image.open(path) as picture:
        picture.thumbnail((SIDE, SIDE))
        out = io.BytesIO()
        picture.convert("RGB").save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
