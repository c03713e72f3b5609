"""Adapters: the result of training one group, with one canonical encoding in bytes; and the digest of a model."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shardgraph.digest import Raw, digest, merkle_root
from shardgraph.storage.tensorfile import pack, pack_strings, unpack, unpack_strings


@dataclass(frozen=True)
class Adapters:
    """The adapters of a group, one per class: a query and a head (inca), or a weight and a bias (linear).

    classes     the labels, sorted
    first       [C, D] float32   queries, or weights
    second      [C, D] or [C] float32   heads, or biases
    samples     the number of samples they were trained on
    """

    kind: str
    classes: tuple[str, ...]
    first: np.ndarray
    second: np.ndarray
    samples: int

    def to_bytes(self) -> bytes:
        """The bytes of a safetensors file; equal values have equal bytes."""
        names = ("queries", "heads") if self.kind == "inca" else ("weights", "biases")
        tensors = {names[0]: self.first, names[1]: self.second, "samples": np.array([self.samples], np.int64)}
        return pack(tensors | pack_strings("classes", self.classes))

    @classmethod
    def from_bytes(cls, raw: Raw) -> "Adapters":
        """The value that `to_bytes` wrote."""
        tensors = unpack(raw)
        kind = "inca" if "queries" in tensors else "linear"
        first, second = ("queries", "heads") if kind == "inca" else ("weights", "biases")
        classes = unpack_strings("classes", tensors)
        return cls(kind, classes, tensors[first], tensors[second], int(tensors["samples"][0]))

    @property
    def digest(self) -> str:
        return digest(self.to_bytes())


def model_digest(groups: Mapping[str, str], prototypes: str, classes: tuple[str, ...], weight: float) -> str:
    """The Merkle root over names and digests of adapters, prototypes, class list and lambda; it holds no secret."""
    leaves = [digest("group", name, groups[name]) for name in sorted(groups)]
    rest = [digest("prototypes", prototypes), digest("classes", *classes), digest("lambda", weight.hex())]
    return merkle_root([*leaves, *rest])
