"""The file of the erasure log: lines that form a chain, each with a keyed hash of itself and of the line before it.

    {"workspace": public key, "form": 2, "number": 1, "name": random, "previous": "", "digest": ...}   the first line
    {"state": "intended", "request": name, "marks": [...], "previous": ..., "digest": ...}   it is about to be accepted
    {"state": "accepted", "request": name, "previous": ..., "digest": ...}    it was accepted
    {"state": "dropped", "request": name, ...}      it was intended and never accepted
    {"state": "cancelled", "request": name, ...}    it was accepted and cancelled later
    {"state": "returned", "request": name, "marks": [...], ...}    these samples were added again, with permission

An accepted line has marks if no intended line comes before it. `digest` is a keyed hash of the text before it, which
includes the digest of the previous line: who changes, removes or inserts a line needs the workspace's secret. `number`
counts the records of a workspace; each begins with all that was forgotten before. Records of earlier versions have no
chain: {"workspace": key}, {"request": name, "marks": [...]}, {"cancels": name}.
"""

import hmac
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.files import sync_folder

INTENDED, ACCEPTED, DROPPED, CANCELLED, RETURNED = "intended", "accepted", "dropped", "cancelled", "returned"
STATES = (INTENDED, ACCEPTED, DROPPED, CANCELLED, RETURNED)
FORM = 2
_LINE = re.compile(r'(\{.+, "previous": "([0-9a-f]{64}|)"), "digest": "([0-9a-f]{64})"\}')
Content = Mapping[str, Any]
"""What a line says, without its place in the chain."""


@dataclass(frozen=True)
class End:
    """A place in the chain: the digest of a line, the number of bytes up to its end, and the number of the record."""

    digest: str = ""
    size: int = 0
    number: int = 0


@dataclass(frozen=True)
class Line:
    """One line: what it says (the first line: nothing), the digest of the line before it, and where it ends."""

    state: str
    request: str
    marks: tuple[str, ...]
    previous: str
    end: End


@dataclass(frozen=True)
class Chain:
    """The lines of a record; `rest` follows the last complete line. Without a chain, `end` is the end of the file."""

    lines: tuple[Line, ...]
    end: End
    rest: bytes = b""
    chained: bool = True
    unreadable: int = 0


# Reading


def read_raw(path: Path) -> bytes:
    """The bytes of a record; an error if it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DamagedFile(f"the record {path} is missing") from None
    except OSError as error:
        raise WorkspaceError(f"the record {path} cannot be read: {error.strerror}") from error


def parse(path: Path, raw: bytes, keys: Keys) -> Chain:
    """The lines of a record, all of them checked; an error if one is damaged, or if it is of another workspace."""
    *texts, rest = raw.split(b"\n")
    header = _json(texts[0] if texts else rest)
    if "workspace" not in header:
        raise DamagedFile(f"{path} is no record, or it is damaged")
    if header["workspace"] != keys.public:
        raise ConfigError(f"{path} is the record of another workspace, or its first line is damaged")
    if header == {"workspace": keys.public}:
        return _parse_old(texts[1:], rest, len(raw))
    lines: list[Line] = []
    end = End(number=_number(header))
    for number, text in enumerate(texts, start=1):
        line = _authentic(text, keys, end)
        if line is None or line.previous != end.digest or (line.state not in STATES) != (number == 1):
            raise DamagedFile(f"the record {path} is damaged: line {number} of {len(texts)} was changed or removed")
        lines.append(line)
        end = line.end
    if not lines:
        raise DamagedFile(f"{path} is no record, or it is damaged")
    return Chain(tuple(lines), end, rest)


def salvage(raw: bytes, keys: Keys) -> Chain:
    """The lines of a damaged record that are as they were written, in their order; the others are counted.

    An error if there is none.
    """
    *texts, rest = raw.split(b"\n")
    header = _json(texts[0] if texts else rest)
    if header == {"workspace": keys.public}:
        return _parse_old(texts[1:], rest, len(raw))
    found = [_authentic(text, keys, End()) for text in texts]
    lines = tuple(line for line in found if line)
    if not lines:
        raise DamagedFile("no line of the record could be read")
    return Chain(lines, End(number=_number(header)), rest, unreadable=len(found) - len(lines) + bool(rest))


def ends_as_known(path: Path, known: End, then: bytes) -> bool | None:
    """Whether the record ends with the line `known` and `then`, or with that line alone; None if it does neither.

    Only the last bytes are read.
    """
    last = f'{known.digest}"}}\n'.encode()
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size not in (known.size, known.size + len(then)) or known.size < len(last):
                return None
            file.seek(known.size - len(last))
            raw = file.read()
    except OSError:
        read_raw(path)  # it says why
        return None
    return True if raw == last + then else False if raw == last else None


# Writing


def encode(keys: Keys, before: End, content: Content) -> tuple[bytes, End]:
    """The bytes of a line after `before`, and its place."""
    text = json.dumps({**content, "previous": before.digest})[:-1]
    digest = keys.mark("record", text)
    raw = f'{text}, "digest": "{digest}"}}\n'.encode()
    return raw, End(digest, before.size + len(raw), before.number)


def encode_all(keys: Keys, number: int, contents: Sequence[Content]) -> tuple[bytes, list[End]]:
    """The bytes of a new record with these lines, and the place of each, the first line's included."""
    header = {"workspace": keys.public, "form": FORM, "number": number, "name": os.urandom(16).hex()}
    raw, end = encode(keys, End(number=number), header)
    pieces, ends = [raw], [end]
    for content in contents:
        raw, end = encode(keys, end, content)
        pieces.append(raw)
        ends.append(end)
    return b"".join(pieces), ends


def append(path: Path, keys: Keys, end: End, contents: Iterable[Content]) -> End:
    """Add lines after `end`, in place of what a crash left there, and sync the file; returns the new end."""
    raw = b""
    for content in contents:
        more, end = encode(keys, end, content)
        raw += more
    if not raw:
        return end
    start = end.size - len(raw)
    try:
        with path.open("r+b") as file:
            file.seek(start)
            file.truncate()
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise WorkspaceError(f"the record {path} cannot be written: {error.strerror}") from error
    return end


def write_new(path: Path, raw: bytes, *, replace: bool = False) -> None:
    """Write a whole record durably; with `replace`, in place of the one that is there, completely or not at all."""
    new = path.with_name(path.name + ".new") if replace else path
    try:
        with new.open("wb" if replace else "xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            new.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise WorkspaceError(f"the record {path} cannot be written: {error.strerror}") from error


# Helpers


def _authentic(text: bytes, keys: Keys, before: End) -> Line | None:
    """A line that begins where `before` ends; None if it is not as it was written."""
    try:
        found = _LINE.fullmatch(text.decode())
    except UnicodeDecodeError:
        return None
    if not found or not hmac.compare_digest(keys.mark("record", found[1]), found[3]):
        return None
    said = _json(text)
    end = End(found[3], before.size + len(text) + 1, before.number)
    return Line(said.get("state", ""), said.get("request", ""), tuple(said.get("marks", ())), found[2], end)


def _parse_old(texts: Sequence[bytes], rest: bytes, size: int) -> Chain:
    """The lines of a record without a chain; those that cannot be read are counted: a crash may have cut them off."""
    lines, unreadable = [], 0
    for text in (*texts, *([rest] if rest else [])):
        said = _json(text)
        if isinstance(said.get("request"), str) and isinstance(said.get("marks"), list):
            lines.append(Line(ACCEPTED, said["request"], tuple(said["marks"]), "", End()))
        elif isinstance(said.get("cancels"), str):
            lines.append(Line(CANCELLED, said["cancels"], (), "", End()))
        else:
            unreadable += 1
    return Chain(tuple(lines), End("", size), chained=False, unreadable=unreadable)


def _number(header: Content) -> int:
    """The number of a record, from its first line, which need not be authentic."""
    number = header.get("number")
    return number if isinstance(number, int) else 0


def _json(text: bytes) -> dict[str, Any]:
    """The object that a text holds; an empty one if it holds none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
