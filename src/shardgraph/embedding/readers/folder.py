"""Folders of images: `class/*.jpg`, or `source/class/*.jpg` where sources are folders.

Above either, folders named `train` and `test` (and no others) are splits. The id of a sample is its path inside the
folder, with slashes: the name that its owner gave it. Images that are only to be predicted (not `labelled`) may be at
any depth. Hidden files and files without the suffix of an image are ignored.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.records import IMAGE, UNLABELLED, Record
from shardgraph.embedding.remote import Place, RemotePath, place_of
from shardgraph.errors import InputError, check_text
from shardgraph.storage.samples import TEST, TRAIN

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm .jp2 .avif .ico .tga".split()  # noqa: SIM905
)


class FolderReader(Reader):
    """A folder of images as records, in the order of their ids' bytes; only names are held in memory."""

    modality = IMAGE

    def __init__(self, folder: str | Place, *, labelled: bool = True) -> None:
        self.folder = place_of(folder)
        names = list(_images(self.folder))
        check_text(names, "the names of images and their folders")
        self._names = sorted(names, key=str.encode)
        self._parts = _meaning(self._names, self.folder) if labelled else ()
        if not self._names:
            raise InputError(f"'{self.folder}' must hold images, found none")

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Record]:
        for name in self._names:
            fields = {"label": UNLABELLED} | dict(zip(self._parts, name.split("/"), strict=False))
            yield Record(id=name, payload=self.folder / name, **fields)


def _images(folder: Place) -> Iterator[str]:
    """Paths of the images below, relative and with slashes."""
    if isinstance(folder, RemotePath):
        for found in map(PurePosixPath, folder.find()):
            if found.suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in found.parts):
                yield found.as_posix()
        return
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield (Path(here) / name).relative_to(folder).as_posix()


def _meaning(names: list[str], folder: Place) -> tuple[str, ...]:
    """The meaning of the folders of a path, from the outermost on."""
    if not names:
        raise InputError(f"'{folder}' must hold images as class/name.jpg or source/class/name.jpg, found none")
    by_depth = {name.count("/"): name for name in reversed(names)}
    tops = {name.split("/")[0] for name in names}
    split = ("split",) if tops <= {TRAIN, TEST} and 0 not in by_depth else ()
    parts = {1: (*split, "label"), 2: (*split, "source", "label")}.get(max(by_depth) - len(split))
    if len(by_depth) > 1 or parts is None:
        shown = " and ".join(repr(name) for _, name in sorted(by_depth.items())[:2])
        raise InputError(f"images must all lie at class/name.jpg or all at source/class/name.jpg, found {shown}")
    return parts
