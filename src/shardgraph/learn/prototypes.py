"""Class prototypes as exact integer sums, so that removal is exact and instant (paper, section 6).

A sample is described by its pooled features, and with an expansion by random features of its tokens too; each part
is normalised, the whole multiplied by 2^15 and rounded to integers x. Per class the sums of x are kept (first order,
the paper's prototypes), and over all classes the sum of the outer products x x' (second order). Integer sums do not
depend on order or history: adding a sample and subtracting it again gives the same bytes. A floating update would
remember.

Random features of the tokens, reproducible to the bit: what second-order prototypes see beside the pooled features.

    psi(z)_j = sqrt(10^-3 + mean over tokens t of relu(r_j . LN(z_t) / sqrt(D) - 1)),   r_j random signs, fixed for ever

A feature counts how often, and how strongly, tokens point its way; of what is counted the root tells more. LN(z_t) is
rounded to multiples of 2^-8 first. Products of such integers with signs stay below 2^24, where float32 is exact, so
their sums are the same in any order, in any company, with any number of threads; root and quotient are IEEE's own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from shardgraph.digest import Raw, digest_of_pieces, generator
from shardgraph.learn.numerics import denormals, own_numerics
from shardgraph.storage.samples import Samples
from shardgraph.storage.tensorfile import pack_strings, pieces, unpack, unpack_strings

SCALE = 2**15
MANY = 2048  # rows that are summed at a time
FEW_ROWS = 4  # rows whose outer products are added one by one: more are faster in one product
_NOTHING = np.zeros(0, np.int64)
BLOCK = 2**20  # rows of one product: float64 products of integers are exact while sums stay below 2^53


def quantise(features: np.ndarray) -> np.ndarray:
    """Normalised features [n, F] as integers; each row depends on itself alone."""
    with denormals():
        x = features.astype(np.float64)
        norms = lengths(x)
        return np.rint(x / np.where(norms > 0, norms, 1)[:, None] * SCALE).astype(np.int64)


def lengths(x: np.ndarray) -> np.ndarray:
    """The length of every row, added up in an order that other rows do not change; einsum's depends on its buffer."""
    return np.sqrt((x * x).sum(axis=1))


def describe(samples: Samples, expansion: int, device: str = "cpu") -> np.ndarray:
    """Samples as integers [n, F + W], or [n, F] without an expansion; each row depends on itself alone."""
    if not expansion:
        return quantise(samples.features)
    parts = (samples.features, expand(samples, expansion, device))
    return quantise(np.concatenate([quantise(part) for part in parts], axis=1))


@dataclass(frozen=True)
class Prototypes:
    """Sums over samples, by class; a value.

    sums    [K, F] int64    per class, the sum of what describes its samples
    counts  [K] int64       how many there are
    outer   [F (F + 1) / 2] int64    the sum of their outer products over all classes, its upper triangle row by row;
                                     None where only first order is kept
    expansion               random features a token dimension, see `expand`
    wide                    how many of the F those are; they come last
    """

    classes: tuple[str, ...] = ()
    sums: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    outer: np.ndarray | None = None
    expansion: int = 0
    wide: int = 0

    def plus(self, samples: Samples) -> "Prototypes":
        """With these samples."""
        return self._counted([samples], 1)

    def minus(self, samples: Samples, device: str = "cpu") -> "Prototypes":
        """Without these samples; a class that has none left is gone."""
        return self.without([samples], device)

    def without(self, parts: Iterable[Samples], device: str = "cpu", *, reuse: bool = False) -> "Prototypes":
        """Without the samples of all parts; with `reuse` in the memory of these, which nobody may look at again."""
        return self._counted(parts, -1, device, reuse)

    def vectors(self) -> np.ndarray:
        """The unit vectors of the class means [K, F] float32, for the cosine."""
        sums = self.sums.astype(np.float64)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return (sums / np.where(norms > 0, norms, 1)).astype(np.float32)

    def products(self) -> np.ndarray:
        """The sum of all outer products [F, F] float64, the upper triangle alone; exact while it stays below 2^53."""
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
        """The file's bytes where they lie, to be hashed and written without a copy: they may be many."""
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
        """With the parts' samples added or subtracted, many at a time."""
        prototypes = self
        labels: list[str] = []
        quantised: list[np.ndarray] = []
        for piece in chain.from_iterable(map(_pieces, parts)):
            labels += piece.labels
            quantised.append(describe(piece, self.expansion, device))
            pooled = piece.features.shape[1]
            if len(labels) >= MANY:
                prototypes = prototypes._changed(labels, np.concatenate(quantised), pooled, sign, device, reuse)
                labels, quantised, reuse = [], [], True  # what was just made is nobody else's
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
        if not len(kept):  # nothing is left, not even how wide it was
            return Prototypes(outer=None if self.outer is None else _NOTHING, expansion=self.expansion)
        outer = None if self.outer is None else _added(self.outer, quantised, sign, device, reuse)
        wide = quantised.shape[1] - pooled
        return Prototypes(tuple(classes[i] for i in kept), sums[kept], counts[kept], outer, self.expansion, wide)


def total(
    parts: Iterable[Samples], *, second_order: bool = False, expansion: int = 0, device: str = "cpu"
) -> Prototypes:
    """The prototypes of all samples of the parts, the same on any device; an expansion goes with the second order."""
    expansion = expansion if second_order else 0
    return Prototypes(outer=_NOTHING if second_order else None, expansion=expansion)._counted(parts, 1, device)


def _pieces(samples: Samples) -> Iterator[Samples]:
    """The samples, MANY at a time: what describes them takes more room than they do."""
    for start in range(0, len(samples), MANY):
        whole = len(samples) <= MANY
        yield samples if whole else samples.take(np.arange(start, min(start + MANY, len(samples))))


def _added(outer: np.ndarray, quantised: np.ndarray, sign: int, device: str, reuse: bool) -> np.ndarray:
    """outer + sign * sum of x x', exactly; with `reuse` it may lie where `outer` lay."""
    if len(outer) and len(quantised) <= FEW_ROWS:
        return _added_one_by_one(outer if reuse else outer.copy(), sign * quantised, quantised)
    triangle = _triangle(quantised.shape[1])
    for start in range(0, len(quantised), BLOCK):
        x = torch.from_numpy(quantised[start : start + BLOCK]).to(device).double()
        products = ((sign * x).T @ x).cpu().numpy().take(triangle).astype(np.int64)
        outer = np.add(products, outer, out=products) if len(outer) else products
    return outer


def _added_one_by_one(outer: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Adds the sum of x y' to outer, a row of the triangle at a time: it stays in the cache, a product would not."""
    size = right.shape[1]
    for x, y in zip(left, right, strict=True):
        end = 0
        for i in range(size):
            outer[end : (end := end + size - i)] += x[i] * y[i:]
    return outer


@lru_cache(maxsize=4)
def _triangle(size: int) -> np.ndarray:
    """Where the upper triangle lies in a flat square, row by row."""
    return np.flatnonzero(np.triu(np.ones((size, size), bool)))


STEPS = 2**8  # per unit of a normalised token
TOKENS = 2**14  # rows of one product; bounds memory, changes no bit
FLOOR = 1e-3  # under the root: whether a token in a thousand points that way is chance
FEW_TOKENS = 2**10  # tokens that one thread is enough for: on a busy machine two would wait far longer than they work
MOST = 3072  # features, however wide the tokens are: their products are kept, and solved for at every build


def width(dim: int, expansion: int) -> int:
    """How many features tokens of `dim` dimensions get: `expansion` a dimension, and at most MOST."""
    return min(expansion * dim, MOST)


def expand(samples: Samples, expansion: int, device: str = "cpu") -> np.ndarray:
    """The features of each sample's tokens [n, W] float64, W as `width` says; the same on any device."""
    exact = torch.float32 if device == "cpu" else torch.float64  # a GPU may be told to round float32 products
    signs = _signs(dim := samples.tokens.shape[1], width(dim, expansion)).to(device, exact)
    with own_numerics(1 if len(samples.tokens) <= FEW_TOKENS else torch.get_num_threads()):
        parts = [_summed(samples, rows, signs) for rows in _blocks(samples.offsets)]
    sums = np.concatenate(parts) if parts else np.zeros((0, signs.shape[1]))
    tokens = np.maximum(np.diff(samples.offsets), 1)[:, None]
    return np.sqrt(sums / (tokens * STEPS * np.sqrt(dim)) + FLOOR)


def _summed(samples: Samples, rows: range, signs: Tensor) -> np.ndarray:
    """The sums over tokens of relu(r . steps - threshold) [rows, W]: integers, as float64."""
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
    """LayerNorm of every token, in whole steps."""
    x = torch.from_numpy(np.ascontiguousarray(tokens)).double()
    x -= x.mean(dim=1, keepdim=True)
    x /= x.square().mean(dim=1, keepdim=True).add_(1e-6).sqrt_()
    return x.mul_(STEPS).round_().float()


def _blocks(offsets: np.ndarray) -> Iterator[range]:
    """The samples in runs of at most TOKENS tokens, or of one sample that has more."""
    start, n = 0, len(offsets) - 1
    while start < n:
        stop = max(int(np.searchsorted(offsets, offsets[start] + TOKENS, side="right")) - 1, start + 1)
        yield range(start, stop)
        start = stop


@lru_cache(maxsize=4)
def _signs(dim: int, width: int) -> Tensor:
    """r [dim, width]: a public constant, no part of any training."""
    assert dim * STEPS < 2**24, "sums of signed steps must be exact in float32"
    signs = generator(0, "expansion", dim, width).integers(0, 2, (dim, width)) * 2 - 1
    return torch.from_numpy(signs).float()
