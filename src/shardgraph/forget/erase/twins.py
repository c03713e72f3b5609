"""Twins: other samples with the same content, exactly or nearly. They are computed on request and never stored.

Exact twins have equal bytes of tokens and features; labels, sources and splits are not compared. Near twins have pooled
features whose cosine is at least a threshold. The default, 0.98, is strict: it finds images that were saved again,
scaled or cropped slightly. A near twin is a judgement about content, not a proof: look at the samples before you act.

All pairs are searched with a bound that misses none. The coordinates are split into a head and a tail; Cauchy-Schwarz
gives z.z' <= head.head' + |tail| |tail'|. Computing this bound takes an eighth of the multiplications, and few pairs
remain for the full product. The head holds the coordinates with the largest sums of squares.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shardgraph.errors import InputError, check_list
from shardgraph.storage.samples import Samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory

THRESHOLD = 0.98
BLOCK = 4096  # rows in one matrix product
MOST = 1_000_000  # pairs in one result
_HEAD = 8  # a head has an eighth of the coordinates
_SLACK = 1e-4  # for the rounding of float32 in the bound
_MANY = 0.002  # share of a block's pairs above which the full product is faster than checking each pair

Pair = tuple[int, int, float]


@dataclass(frozen=True)
class Twin:
    """Two samples with the same content; `units` are the units that hold them, in the same order."""

    sample: str
    other: str
    cosine: float
    exact: bool
    units: tuple[str, str]


@dataclass(frozen=True)
class _Row:
    id: str
    unit: str
    content: bytes


def find_twins(store: Store, ids: Iterable[str] | None = None, threshold: float = THRESHOLD) -> list[Twin]:
    """All pairs of twins, or the twins of `ids`, which are then first in their pair. Reads every file once or twice.

    It holds features in memory: of all samples, or of `ids` and one unit.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"a threshold must be above 0 and at most 1, got {threshold}")
    units = sorted(inventory.unit_labels(store.catalogue))
    if ids is None:
        rows, features = _gather(store, units, None)
        pairs = [*_equal(rows, range(len(rows))), *near_pairs(features, threshold)]
        found = [_twin(rows[i], rows[j], cosine) for i, j, cosine in pairs]
    else:
        check_list(ids, "the samples whose twins are looked for")
        found = _of(store, units, set(ids), threshold)
    unique = {(twin.sample, twin.other): twin for twin in sorted(found, key=lambda twin: twin.exact)}
    return sorted(unique.values(), key=lambda twin: (not twin.exact, -twin.cosine, twin.sample, twin.other))


def near_pairs(features: np.ndarray, threshold: float) -> list[Pair]:
    """All i < j whose rows of unit features [n, F] have a cosine of at least `threshold`."""
    heads = _heads(features)
    found: list[Pair] = []
    for top in range(0, len(features), BLOCK):
        for left in range(top, len(features), BLOCK):
            bound = heads[top : top + BLOCK] @ heads[left : left + BLOCK].T
            for pair in _checked(features, bound, top, left, threshold):
                found.append(pair)
            if len(found) > MOST:
                raise InputError(f"over {MOST:,} pairs are as near as {threshold}: ask with a higher threshold")
    return found


def unit_rows(features: np.ndarray) -> np.ndarray:
    """Rows scaled to length one, as float32; a row of zeros stays zero and is near no other row."""
    lengths = np.sqrt(np.einsum("nf,nf->n", features, features, dtype=np.float64))
    return features / np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]


def _checked(features: np.ndarray, bound: np.ndarray, top: int, left: int, threshold: float) -> Iterator[Pair]:
    """The near pairs of a block: those above the bound, checked with the full product."""
    hits = np.flatnonzero(bound.ravel() >= threshold - _SLACK)
    if len(hits) > _MANY * bound.size:
        whole = features[top : top + bound.shape[0]] @ features[left : left + bound.shape[1]].T
        hits = np.flatnonzero(whole.ravel() >= threshold - _SLACK)
    i, j = hits // bound.shape[1] + top, hits % bound.shape[1] + left
    i, j = i[i < j], j[i < j]
    for start in range(0, len(i), BLOCK):
        a, b = i[start : start + BLOCK], j[start : start + BLOCK]
        cosines = np.einsum("nf,nf->n", features[a].astype(np.float64), features[b].astype(np.float64))
        near = np.flatnonzero(cosines >= threshold)
        yield from zip(a[near].tolist(), b[near].tolist(), cosines[near].tolist(), strict=True)


def _heads(features: np.ndarray) -> np.ndarray:
    """The k coordinates with the largest sums of squares over all rows, and the norm of the others: [n, k + 1]."""
    weights = np.einsum("nf,nf->f", features, features)
    k = max(1, features.shape[1] // _HEAD) if features.size else 0
    heads = features[:, np.sort(np.argsort(-weights, kind="stable")[:k])]
    rest = np.einsum("nf,nf->n", features, features) - np.einsum("nk,nk->n", heads, heads)
    return np.concatenate([heads, np.sqrt(np.maximum(rest, 0))[:, None]], axis=1)


def _of(store: Store, units: Sequence[str], ids: set[str], threshold: float) -> list[Twin]:
    """The twins of `ids`: these are kept in memory, all other samples are read unit by unit."""
    where = sorted({row.unit for row in inventory.find_by_id(store.catalogue, sorted(ids))})
    asked, features = _gather(store, where, ids)
    contents: dict[bytes, list[_Row]] = {}
    for row in asked:
        contents.setdefault(row.content, []).append(row)
    found = []
    for unit in units:
        others, passing = _gather(store, [unit], None)
        for other in others:
            found += [_twin(row, other, 1.0) for row in contents.get(other.content, ()) if row.id != other.id]
        for top in range(0, len(asked), BLOCK):
            cosines = features[top : top + BLOCK] @ passing.T
            for i, j in zip(*np.nonzero(cosines >= threshold), strict=True):
                if asked[top + i].id != others[j].id:
                    found.append(_twin(asked[top + i], others[j], float(cosines[i, j])))
        if len(found) > MOST:
            raise InputError(f"over {MOST:,} pairs are as near as {threshold}: ask with a higher threshold")
    return found


def _gather(store: Store, units: Iterable[str], ids: set[str] | None) -> tuple[list[_Row], np.ndarray]:
    """The samples of these units, all or those of `ids`, and their features scaled to length one."""
    rows: list[_Row] = []
    features = [np.empty((0, 0), np.float32)]
    for unit in units:
        samples = store.read(unit)
        here = [i for i, sample in enumerate(samples.ids) if ids is None or sample in ids]
        rows += [_Row(samples.ids[i], unit, _content(samples, i)) for i in here]
        features.append(unit_rows(samples.features[here]))
    return rows, np.concatenate(features[1:] if len(features) > 1 else features)


def _content(samples: Samples, i: int) -> bytes:
    h = hashlib.blake2b(samples.tokens[samples.offsets[i] : samples.offsets[i + 1]].tobytes(), digest_size=16)
    h.update(samples.features[i].tobytes())
    return h.digest()


def _equal(rows: Sequence[_Row], places: Iterable[int]) -> Iterator[Pair]:
    """All pairs with the same content; `near_pairs` misses those whose features are zero, which have no cosine."""
    classes: dict[bytes, list[int]] = {}
    for i in places:
        classes.setdefault(rows[i].content, []).append(i)
    for members in classes.values():
        for n, i in enumerate(members):
            yield from ((i, j, 1.0) for j in members[n + 1 :])


def _twin(a: _Row, b: _Row, cosine: float) -> Twin:
    exact = a.content == b.content
    return Twin(a.id, b.id, 1.0 if exact else min(1.0, cosine), exact, (a.unit, b.unit))
