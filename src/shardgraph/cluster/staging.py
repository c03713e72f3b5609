"""Copies of shard files in object storage, for nodes that cannot read the workspace's folder; deleted after the run.

The workspace holds a note of where the copies are (`staged.json`), from before the first copy is made until the last
one is deleted. After a crash, the next command that writes to the workspace deletes the copies. Their names are random:
a digest in the listing or the log of a bucket would remain after the samples are forgotten.
"""

import json
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError
from shardgraph.storage.files import read_file, sync_folder, write_file

MARK = "staged.json"


def is_remote(path: str) -> bool:
    """Whether a path is a URL; a local path never holds "://", because `Path` folds its slashes."""
    return "://" in path


def fetch(url: str) -> bytes:
    """The bytes of a copy."""
    fs, place = _filesystem(url)
    try:
        raw: bytes = fs.cat_file(place)
        return raw
    except FileNotFoundError:
        raise DamagedFile(f"{url} is missing: the run that put it there has ended") from None


def size_of(path: str) -> int:
    """The bytes of a file, or of a copy."""
    if not is_remote(path):
        return Path(path).stat().st_size
    fs, place = _filesystem(path)
    return int(fs.size(place))


class Staging:
    """A folder in object storage for the duration of one run: `with Staging(root, url) as staging`."""

    def __init__(self, root: Path, url: str) -> None:
        if not is_remote(url):
            raise ConfigError(f"storage must be a URL that fsspec knows, such as s3://bucket/folder, got {url!r}")
        self._root = root
        self._url = f"{url.rstrip('/')}/shardgraph-{uuid.uuid4().hex}"
        self._copies: dict[str, str] = {}

    def __enter__(self) -> Self:
        _filesystem(self._url)  # fails before anything is noted if the protocol is not installed
        sweep_staged(self._root)
        write_file(self._root, self._root / MARK, json.dumps({"url": self._url}).encode())
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        sweep_staged(self._root)

    def put(self, path: str) -> str:
        """The URL of a copy of a file, which is made at the first call."""
        if path not in self._copies:
            url = f"{self._url}/{uuid.uuid4().hex}"
            fs, place = _filesystem(url)
            fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(place, bytes(read_file(Path(path))))
            self._copies[path] = url
        return self._copies[path]


def sweep_staged(root: Path) -> None:
    """Delete the copies that a run made, and the note of where they are; does nothing if there is no note."""
    mark = root / MARK
    if not mark.exists():
        return
    url = json.loads(mark.read_bytes())["url"]
    fs, place = _filesystem(url)
    try:
        fs.invalidate_cache()
        if fs.exists(place):
            fs.rm(place, recursive=True)
    except Exception as problem:  # each kind of storage has its own exceptions
        raise WorkspaceError(f"copies of shard files could not be deleted at {url} ({problem}); try again") from problem
    mark.unlink()
    sync_folder(root)


def _filesystem(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # a dependency of torch

    try:
        fs, place = url_to_fs(url)
    except (ImportError, ValueError) as problem:
        raise ConfigError(f"storage at {url} cannot be reached: {problem}") from problem
    return fs, place
