"""Data at a URL (s3://, gs://, https://, ...), read through fsspec; nothing of it is kept on this machine.

fsspec is imported when the first URL is read (`pip install 'shardgraph[remote]'`); the protocols of object stores need
a package of their own, for example s3fs. Credentials and addresses come from where those packages look for them: the
environment and the user's own configuration files. fsspec's caches on disk are refused and its lists of folders are not
kept. Error messages name a URL without the user, the password and the query that it may hold.
"""

import contextlib
import csv
import io
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from shardgraph.errors import InputError, ShardgraphError, UnreachableData

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # more than one letter, which would be a drive
_SECRETS = (re.compile(r"(?<=://)[^/@\s]+@"), re.compile(r"(?<=[\w/])\?[^\s'\")]+"))
_WEB = ("http", "https")
_OURS = (ShardgraphError, csv.Error, UnicodeError)  # raised by those who read, and not by the transport


@dataclass(frozen=True)
class RemotePath:
    """A file or folder at a URL, with those methods of a `Path` that readers need; reads nothing by itself."""

    url: str

    def __post_init__(self) -> None:
        if "::" in self.url:
            raise InputError(f"a URL must name one place, without '::' (chains and caches of fsspec), got '{self}'")

    def __str__(self) -> str:
        return without_secrets(self.url)

    @property
    def scheme(self) -> str:
        """The protocol."""
        return self.url.partition("://")[0].lower()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self._path.rstrip("/")) or str(self)

    @property
    def suffix(self) -> str:
        """The suffix of the name, with its dot."""
        return posixpath.splitext(self.name)[1]

    @property
    def parent(self) -> "RemotePath":
        """The folder that holds it."""
        return RemotePath(self.url[: len(self.url.partition("?")[0] if self._web else self.url)].rpartition("/")[0])

    def __truediv__(self, name: str) -> "RemotePath":
        """What `name` names from here: a place below, or a whole URL of the same protocol."""
        if is_url(name):
            if name.partition("://")[0].lower() != self.scheme:
                raise InputError(f"a path in data from {self.scheme}:// must not be of another protocol, got '{name}'")
            return RemotePath(name)
        if name.startswith("/") or ".." in name.split("/"):
            raise InputError(f"a path in data from a URL must lie below that data's folder, got {name!r}")
        return RemotePath(f"{self.url.rstrip('/')}/{quote(name) if self._web else name}")

    def read_bytes(self) -> bytes:
        """The whole file."""
        with self.explained():
            files, path = self._opened_system()
            found: bytes = files.cat_file(path)
            return found

    @contextlib.contextmanager
    def stream(self) -> Iterator[IO[bytes]]:
        """The file, read once from its beginning to its end; a few blocks are in memory."""
        with self.explained():
            files, path = self._opened_system()
            options = {"block_size": 0} if self._web else {}  # of HTTP: no ranges, which not every server has
            with files.open(path, "rb", **options) as file:
                yield io.BufferedReader(_Raw(file), 1 << 20)

    def random_access(self) -> Any:
        """The file, read in any order; on the web its server must answer requests for ranges."""
        with self.explained():
            files, path = self._opened_system()
            return files.open(path, "rb")

    def find(self) -> list[str]:
        """The paths of all files below, relative and with slashes."""
        with self.explained():
            files, path = self._opened_system()
            root = path.rstrip("/") + "/"
            names = [name if name.startswith(root) else "/" + name for name in files.find(root if self._web else path)]
            below = [name.removeprefix(root) for name in names if name.startswith(root)]
            return [unquote(name.partition("?")[0]) for name in below] if self._web else below

    @property
    def _web(self) -> bool:
        return self.scheme in _WEB

    @property
    def _path(self) -> str:
        """The part of the URL after the protocol; on the web without the query and without escapes."""
        path = self.url.partition("://")[2]
        return unquote(re.split(r"[?#]", path)[0]) if self._web else path

    def _opened_system(self) -> tuple[Any, str]:
        """fsspec's file system for the protocol, and the path in it."""
        try:
            from fsspec.core import url_to_fs
        except ImportError as problem:
            raise InputError(f"data at a URL needs fsspec, for '{self}': pip install 'shardgraph[remote]'") from problem
        try:
            found: tuple[Any, str] = url_to_fs(self.url, use_listings_cache=False)
            return found
        except ImportError as problem:
            raise InputError(f"'{self}' needs a package that is not installed: {problem}") from problem
        except ValueError as problem:
            if "Protocol not known" in str(problem):
                raise InputError(f"a URL must have a protocol that fsspec knows, got '{self}'") from problem
            raise

    @contextlib.contextmanager
    def explained(self, *others: type[Exception]) -> Iterator[None]:
        """Turns what goes wrong in reading into our errors; `others` are errors of the one who reads."""
        own: tuple[type[Exception], ...] = (*_OURS, *others)
        try:
            yield
        except own:
            raise
        except FileNotFoundError as problem:
            raise InputError(f"data at a URL must exist, '{self}' does not, or is not to be seen") from problem
        except Exception as problem:  # every protocol has errors of its own
            words = without_secrets(" ".join(str(problem).split()))[:300]
            advice = "check the address, the credentials and the connection, then do the same again"
            if self._web and isinstance(problem, ValueError):
                advice = "the server must answer requests for ranges; if it does not, download the file"
            raise UnreachableData(f"'{self}' cannot be read, got {type(problem).__name__}: {words}; {advice}") from None


class _Raw(io.RawIOBase):
    """A file of fsspec as Python's own readers want it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raw = self._file.read(len(buffer))
        buffer[: len(raw)] = raw
        return len(raw)


Place = Path | RemotePath


def is_url(name: object) -> bool:
    """Whether a string is a URL; a path is none, whatever its name."""
    return isinstance(name, str) and _URL.match(name) is not None


def place_of(name: "str | Path | RemotePath") -> Place:
    """Where data lies: a URL or a path."""
    if isinstance(name, RemotePath):
        return name
    return RemotePath(name) if isinstance(name, str) and is_url(name) else Path(name)


def beside(folder: Place, name: str) -> Place:
    """What `name` names in a table that lies in `folder`: a path from there, or a URL."""
    return RemotePath(name) if isinstance(folder, Path) and is_url(name) else folder / name


@contextlib.contextmanager
def opened(place: Place) -> Iterator[IO[bytes]]:
    """The file, to be read from its beginning to its end."""
    if isinstance(place, RemotePath):
        with place.stream() as file:
            yield file
    else:
        with place.open("rb") as local:
            yield local


def without_secrets(text: str) -> str:
    """The text, without users, passwords and queries in the URLs that it holds."""
    for secret in _SECRETS:
        text = secret.sub("", text)
    return text
