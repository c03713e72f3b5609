"""Class prototypes as exact integer sums, so that removal is exact and instant (paper, section 6).

A feature is normalised, multiplied by 2^15 and rounded; classes keep sums of these integers. Integer
sums do not depend on order or history: adding a sample and subtracting it again gives the same bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from shardgraph.data.samples import Samples
from shardgraph.data.tensorfile import pack, pack_strings, unpack, unpack_strings
from shardgraph.digest import digest

SCALE = 2**15


def quantise(features: np.ndarray) -> np.ndarray:
    """Normalised features [n, F] as integers; each row depends on itself alone."""
    x = features.astype(np.float64)
    norms = np.sqrt(np.einsum("nf,nf->n", x, x))
    return np.rint(x / np.where(norms > 0, norms, 1)[:, None] * SCALE).astype(np.int64)


@dataclass(frozen=True)
class Prototypes:
    """Per class: the sum of its quantised features [K, F] int64, and how many there are [K] int64."""

    classes: tuple[str, ...] = ()
    sums: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def plus(self, samples: Samples) -> "Prototypes":
        """With these samples."""
        return self._changed(samples, 1)

    def minus(self, samples: Samples) -> "Prototypes":
        """Without these samples; a class that has none left is gone."""
        return self._changed(samples, -1)

    def vectors(self) -> np.ndarray:
        """The unit vectors of the class means [K, F] float32, for the cosine."""
        sums = self.sums.astype(np.float64)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return (sums / np.where(norms > 0, norms, 1)).astype(np.float32)

    def to_bytes(self) -> bytes:
        """The file's bytes: a safetensors file, a function of the value alone."""
        return pack({"sums": self.sums, "counts": self.counts} | pack_strings("classes", self.classes))

    @classmethod
    def from_bytes(cls, raw: bytes | bytearray) -> "Prototypes":
        """The value that `to_bytes` wrote."""
        tensors = unpack(raw)
        return cls(unpack_strings("classes", tensors), tensors["sums"], tensors["counts"])

    @property
    def digest(self) -> str:
        return digest(self.to_bytes())

    def _changed(self, samples: Samples, sign: int) -> "Prototypes":
        if not len(samples):
            return self
        classes = tuple(sorted({*self.classes, *samples.labels}))
        index = {label: i for i, label in enumerate(classes)}
        sums = np.zeros((len(classes), samples.features.shape[1]), np.int64)
        counts = np.zeros(len(classes), np.int64)
        mine = [index[label] for label in self.classes]
        if mine:
            sums[mine], counts[mine] = self.sums, self.counts
        rows = np.array([index[label] for label in samples.labels])
        np.add.at(sums, rows, sign * quantise(samples.features))
        np.add.at(counts, rows, sign)
        kept = np.flatnonzero(counts)
        if not len(kept):
            return Prototypes()  # a width would remember that there had been samples
        return Prototypes(tuple(classes[i] for i in kept), sums[kept], counts[kept])


def total(parts: Iterable[Samples]) -> Prototypes:
    """The prototypes of all samples of the parts."""
    prototypes = Prototypes()
    for part in parts:
        prototypes = prototypes.plus(part)
    return prototypes
