"""Class prototypes as exact integer sums, so that removal is exact and instant (paper, section 6).

A sample is described by its pooled features and, with an expansion, also by random features of its tokens. Each part is
normalised; the whole is normalised, multiplied by 2^15 and rounded to integers x. Kept are the sum of x for each class
(first order: the paper's prototypes) and the sum of the outer products x x' over all classes (second order). Integer
sums depend on neither order nor history: adding a sample and subtracting it again gives the same bytes. Floating-point
sums would not.

Random features of the tokens:

    psi(z)_j = sqrt(10^-3 + mean over tokens t of relu(r_j . LN(z_t) / sqrt(D) - 1)),   r_j random signs, fixed for ever

A feature counts how often, and how strongly, tokens point in direction r_j; the root of that count is more informative
than the count. The features are reproducible to the bit: LN(z_t) is rounded to multiples of 2^-8 first. Products of
such integers with signs stay below 2^24, where float32 is exact, so their sums are equal in any order, for any batch
and for any number of threads; root and quotient are those of IEEE 754.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from shardgraph.digest import Raw, digest_of_pieces, generator
from shardgraph.learn.numerics import fixed_numerics, keep_denormals
from shardgraph.storage.samples import Samples, pack_strings, pieces, unpack, unpack_strings

SCALE = 2**15
MANY = 2048  # rows that are summed at a time
BLOCK = 2**20  # rows of one product: float64 products of integers are exact while sums stay below 2^53
FEW_ROWS = 4  # up to this number, outer products are added one by one; for more, one product is faster
_NOTHING = np.zeros(0, np.int64)

# of the random features
STEPS = 2**8  # per unit of a normalised token
TOKENS = 2**14  # rows of one product; limits memory, changes no bit
FLOOR = 1e-3  # under the root: differences below one token in a thousand are noise
FEW_TOKENS = 2**10  # up to this number one thread is used: on a busy machine a second one costs more than it saves
MOST = 3072  # features in all: the sums of their products are kept, and solved for at every build


@dataclass(frozen=True)
class Prototypes:
    """Sums over samples, by class; an immutable value.

    sums        [K, F] int64   for each class, the sum of x over its samples
    counts      [K] int64      the number of samples of each class
    outer       [F (F + 1) / 2] int64   the sum of x x' over all classes: the upper triangle, row by row;
                                        None where only the first order is kept
    expansion   random features for each token dimension, see `expand`
    wide        how many of the F are random features; they come last
    """

    classes: tuple[str, ...] = ()
    sums: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    outer: np.ndarray | None = None
    expansion: int = 0
    wide: int = 0

    def plus(self, samples: Samples) -> "Prototypes":
        """The prototypes with these samples added."""
        return self._counted([samples], 1)

    def minus(self, samples: Samples, device: str = "cpu") -> "Prototypes":
        """The prototypes with these samples subtracted; a class without samples is dropped."""
        return self.without([samples], device)

    def without(self, parts: Iterable[Samples], device: str = "cpu", *, reuse: bool = False) -> "Prototypes":
        """The prototypes with the samples of all parts subtracted.

        With `reuse` the result may take over the memory of this value, which must not be used afterwards.
        """
        return self._counted(parts, -1, device, reuse)

    def vectors(self) -> np.ndarray:
        """The class means as unit vectors [K, F] float32, for the cosine similarity."""
        sums = self.sums.astype(np.float64)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return (sums / np.where(norms > 0, norms, 1)).astype(np.float32)

    def products(self) -> np.ndarray:
        """The sum of all outer products [F, F] float64, upper triangle only; exact while sums stay below 2^53."""
        assert self.outer is not None
        size, end = self.sums.shape[1], 0
        square = np.zeros((size, size))
        for i in range(size):
            square[i, i:] = self.outer[end : (end := end + size - i)]
        return square

    def to_bytes(self) -> bytes:
        """The file's bytes: a safetensors file, a function of the value alone."""
        return b"".join(self.pieces())

    def pieces(self) -> list[Raw]:
        """The file's bytes in pieces, to be hashed and written without a copy: they may be large."""
        tensors = {"sums": self.sums, "counts": self.counts}
        if self.outer is not None:
            tensors["outer"] = self.outer
            tensors["expansion"] = np.array([self.expansion, self.wide])
        return pieces(tensors | pack_strings("classes", self.classes))

    @classmethod
    def from_bytes(cls, raw: Raw) -> "Prototypes":
        """The value that `to_bytes` wrote."""
        tensors = unpack(raw)
        expansion, wide = map(int, tensors["expansion"]) if "outer" in tensors else (0, 0)
        outer = tensors.get("outer")
        return cls(unpack_strings("classes", tensors), tensors["sums"], tensors["counts"], outer, expansion, wide)

    @cached_property
    def digest(self) -> str:
        return digest_of_pieces(self.pieces())

    def _counted(self, parts: Iterable[Samples], sign: int, device: str = "cpu", reuse: bool = False) -> "Prototypes":
        """The prototypes with the samples of all parts added or subtracted, many at a time."""
        prototypes = self
        labels: list[str] = []
        quantised: list[np.ndarray] = []
        for piece in chain.from_iterable(map(_pieces, parts)):
            labels += piece.labels
            quantised.append(describe(piece, self.expansion, device))
            pooled = piece.features.shape[1]
            if len(labels) >= MANY:
                prototypes = prototypes._changed(labels, np.concatenate(quantised), pooled, sign, device, reuse)
                labels, quantised, reuse = [], [], True  # nobody else holds the new value
        if not labels:
            return prototypes
        return prototypes._changed(labels, np.concatenate(quantised), pooled, sign, device, reuse)

    def _changed(
        self, labels: Sequence[str], quantised: np.ndarray, pooled: int, sign: int, device: str, reuse: bool
    ) -> "Prototypes":
        classes = tuple(sorted({*self.classes, *labels}))
        index = {label: i for i, label in enumerate(classes)}
        sums = np.zeros((len(classes), quantised.shape[1]), np.int64)
        counts = np.zeros(len(classes), np.int64)
        mine = [index[label] for label in self.classes]
        if mine:
            sums[mine], counts[mine] = self.sums, self.counts
        rows = np.array([index[label] for label in labels])
        np.add.at(sums, rows, sign * quantised)
        np.add.at(counts, rows, sign)
        kept = np.flatnonzero(counts)
        if not len(kept):  # an empty value does not keep the number of features
            return Prototypes(outer=None if self.outer is None else _NOTHING, expansion=self.expansion)
        outer = None if self.outer is None else _added(self.outer, quantised, sign, device, reuse)
        wide = quantised.shape[1] - pooled
        return Prototypes(tuple(classes[i] for i in kept), sums[kept], counts[kept], outer, self.expansion, wide)


def total(
    parts: Iterable[Samples], *, second_order: bool = False, expansion: int = 0, device: str = "cpu"
) -> Prototypes:
    """The prototypes of all samples of the parts, equal on any device; `expansion` applies to second order only."""
    expansion = expansion if second_order else 0
    return Prototypes(outer=_NOTHING if second_order else None, expansion=expansion)._counted(parts, 1, device)


def describe(samples: Samples, expansion: int, device: str = "cpu") -> np.ndarray:
    """The integers x of samples [n, F + W], or [n, F] without an expansion; each row depends on itself alone."""
    if not expansion:
        return quantise(samples.features)
    parts = (samples.features, expand(samples, expansion, device))
    return quantise(np.concatenate([quantise(part) for part in parts], axis=1))


def quantise(features: np.ndarray) -> np.ndarray:
    """Normalised features [n, F] as integers; each row depends on itself alone."""
    with keep_denormals():
        x = features.astype(np.float64)
        norms = lengths(x)
        rounded: np.ndarray = np.rint(x / np.where(norms > 0, norms, 1)[:, None] * SCALE).astype(np.int64)
    return rounded


def lengths(x: np.ndarray) -> np.ndarray:
    """The Euclidean length of every row, summed in an order that other rows do not change (einsum's would)."""
    found: np.ndarray = np.sqrt((x * x).sum(axis=1))
    return found


def expand(samples: Samples, expansion: int, device: str = "cpu") -> np.ndarray:
    """The random features of each sample's tokens [n, W] float64, W = `width(...)`; equal on any device."""
    exact = torch.float32 if device == "cpu" else torch.float64  # a GPU may be set to round float32 products
    signs = _signs(dim := samples.tokens.shape[1], width(dim, expansion)).to(device, exact)
    with fixed_numerics(1 if len(samples.tokens) <= FEW_TOKENS else torch.get_num_threads()):
        parts = [_summed(samples, rows, signs) for rows in _blocks(samples.offsets)]
    sums = np.concatenate(parts) if parts else np.zeros((0, signs.shape[1]))
    tokens = np.maximum(np.diff(samples.offsets), 1)[:, None]
    features: np.ndarray = np.sqrt(sums / (tokens * STEPS * np.sqrt(dim)) + FLOOR)
    return features


def width(dim: int, expansion: int) -> int:
    """The number of random features for tokens of `dim` dimensions: `expansion` for each, at most MOST."""
    return min(expansion * dim, MOST)


def _pieces(samples: Samples) -> Iterator[Samples]:
    """The samples, MANY at a time: their descriptions take more memory than they do."""
    for start in range(0, len(samples), MANY):
        whole = len(samples) <= MANY
        yield samples if whole else samples.take(np.arange(start, min(start + MANY, len(samples))))


def _added(outer: np.ndarray, quantised: np.ndarray, sign: int, device: str, reuse: bool) -> np.ndarray:
    """outer + sign * sum of x x', exactly; with `reuse` it may be written into `outer`."""
    if len(outer) and len(quantised) <= FEW_ROWS:
        return _added_one_by_one(outer if reuse else outer.copy(), sign * quantised, quantised)
    triangle = _triangle(quantised.shape[1])
    for start in range(0, len(quantised), BLOCK):
        x = torch.from_numpy(quantised[start : start + BLOCK]).to(device).double()
        products = ((sign * x).T @ x).cpu().numpy().take(triangle).astype(np.int64)
        outer = np.add(products, outer, out=products) if len(outer) else products
    return outer


def _added_one_by_one(outer: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Add the sum of x y' to `outer` in place, a row of the triangle at a time, so that the row stays in the cache."""
    size = right.shape[1]
    for x, y in zip(left, right, strict=True):
        end = 0
        for i in range(size):
            outer[end : (end := end + size - i)] += x[i] * y[i:]
    return outer


@lru_cache(maxsize=4)
def _triangle(size: int) -> np.ndarray:
    """The flat indices of the upper triangle of a square, row by row."""
    return np.flatnonzero(np.triu(np.ones((size, size), bool)))


def _summed(samples: Samples, rows: range, signs: Tensor) -> np.ndarray:
    """For each sample the sum over its tokens of relu(r . steps - threshold) [rows, W]: integers, as float64."""
    offsets = samples.offsets[rows.start : rows.stop + 1]
    threshold = round(STEPS * len(signs) ** 0.5)
    hidden = _normalised(samples.tokens[offsets[0] : offsets[-1]]).to(signs) @ signs
    hidden.sub_(threshold).clamp_(min=0)
    lengths = np.diff(offsets)
    if (lengths == lengths[0]).all():
        sums = hidden.view(len(rows), -1, hidden.shape[1]).sum(dim=1, dtype=torch.float64)
    else:
        sums = torch.segment_reduce(hidden.double(), "sum", lengths=torch.from_numpy(lengths).to(signs.device))
    return sums.cpu().numpy()


def _normalised(tokens: np.ndarray) -> Tensor:
    """LayerNorm of every token, rounded to whole steps."""
    x = torch.from_numpy(np.ascontiguousarray(tokens)).double()
    x -= x.mean(dim=1, keepdim=True)
    x /= x.square().mean(dim=1, keepdim=True).add_(1e-6).sqrt_()
    return x.mul_(STEPS).round_().float()


def _blocks(offsets: np.ndarray) -> Iterator[range]:
    """Ranges of samples with at most TOKENS tokens together, or of one sample that has more."""
    start, n = 0, len(offsets) - 1
    while start < n:
        stop = max(int(np.searchsorted(offsets, offsets[start] + TOKENS, side="right")) - 1, start + 1)
        yield range(start, stop)
        start = stop


@lru_cache(maxsize=4)
def _signs(dim: int, width: int) -> Tensor:
    """r [dim, width]: public constants that depend on no training."""
    assert dim * STEPS < 2**24, "sums of signed steps must be exact in float32"
    signs = generator(0, "expansion", dim, width).integers(0, 2, (dim, width)) * 2 - 1
    return torch.from_numpy(signs).float()
