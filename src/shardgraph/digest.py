"""Digests of files and names, and random generators derived from names.

Everything here is SHA-256 over length-prefixed parts, so that different lists of parts have different input bytes, and
anyone can recompute a digest with a few lines of any language.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Raw = bytes | bytearray | memoryview
Part = Raw | str | int
_RAW = (bytes, bytearray, memoryview)


def canonical_json(value: Any) -> bytes:
    """The canonical encoding of a JSON value: sorted keys, no spaces, UTF-8, no NaN."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def digest(*parts: Part) -> str:
    """SHA-256 in hex over parts, each prefixed by its length."""
    return _sha256(parts).hexdigest()


def begun(size: int) -> "hashlib._Hash":
    """The hash object of `digest` for one part of this size; update it with the bytes of the part."""
    return hashlib.sha256(size.to_bytes(8, "big"))


def digest_of_pieces(pieces: Sequence[Raw]) -> str:
    """`digest` of one part that is given in pieces; they are not joined."""
    h = begun(sum(map(len, pieces)))
    for piece in pieces:
        h.update(piece)
    return h.hexdigest()


def keyed_hash(seed: int, *parts: Part) -> int:
    """A 64-bit number that depends on the seed and the parts alone."""
    return int.from_bytes(_sha256(("shardgraph", seed, *parts)).digest()[:8], "big")


def generator(seed: int, *parts: Part) -> np.random.Generator:
    """A random generator derived from the root seed and names, never from counts or contents."""
    key = int.from_bytes(_sha256(("generator", seed, *parts)).digest()[:16], "big")
    return np.random.Generator(np.random.Philox(key=key))


def merkle_root(leaves: Sequence[str]) -> str:
    """The Merkle root (hex) of hex leaves, in the order given; leaves and nodes have different hash prefixes."""
    level = [digest("leaf", leaf) for leaf in leaves]
    while len(level) > 1:
        pairs = [digest("node", a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + (level[-1:] if len(level) % 2 else [])
    return level[0] if level else digest("empty")


def _sha256(parts: Iterable[Part]) -> "hashlib._Hash":
    h = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, _RAW) else str(part).encode()
        h.update(len(raw).to_bytes(8, "big"))
        h.update(raw)
    return h
