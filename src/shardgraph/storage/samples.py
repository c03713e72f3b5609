"""Samples: a batch of embedded samples in columns, and the bytes of a batch in a file.

Readers, stores and training exchange samples as `Samples`.

**Shard files.** A shard file holds the samples of one shard, in canonical order, as one tensor file:

    ids.bytes, ids.ends        the sample ids, sorted as UTF-8 bytes
    table.bytes, table.ends    the labels that occur, sorted
    labels    [n] int32        each sample's index in the table
    tokens    [sum t_i, D]     the token embeddings, concatenated
    offsets   [n + 1] int64    sample i owns tokens[offsets[i] : offsets[i + 1]]
    features  [n, F] float32   pooled features

The bytes depend on the samples alone: not on the order in which they arrived, nor on samples that were removed.
Sources, subjects and splits are kept in the catalogue.

**Tensor files.** The format is safetensors: 8 bytes of header length (little endian), a JSON header padded with spaces
to a multiple of 8, then the tensors. `pack` writes what the safetensors library writes, sorted by type and name,
without metadata, so equal tensors have equal bytes. Writing copies each tensor once, or not at all (`pieces`); reading
returns views.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

import numpy as np

from shardgraph.digest import Raw
from shardgraph.errors import DamagedFile, DuplicateSample, InputError, check_text, some

TRAIN, TEST = "train", "test"
LARGEST = (
    2.0**40
)  # the largest number in an embedding: squares of much larger ones overflow float32 and spoil the model
_BLOCK = 1 << 18  # numbers that are looked at together; they fit a processor's cache
_TYPES = {"I64": "<i8", "F64": "<f8", "F32": "<f4", "I32": "<i4", "F16": "<f2", "U8": "u1", "BOOL": "?"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_RANKS = {dtype: rank for rank, dtype in enumerate(_NAMES)}  # the order of the types in a file


# A batch of samples


@dataclass(frozen=True)
class Samples:
    """n samples in columns; the tokens of all samples are concatenated, and `offsets` separates them.

    tokens   [sum of t_i, D] float16 or float32    the token embeddings, one per row
    offsets  [n + 1] int64                         sample i owns tokens[offsets[i]:offsets[i + 1]]
    features [n, F] float32                        one pooled vector per sample, for prototypes
    """

    ids: tuple[str, ...]
    labels: tuple[str, ...]
    tokens: np.ndarray
    offsets: np.ndarray
    features: np.ndarray
    sources: tuple[str, ...] = field(default=())
    subjects: tuple[str, ...] = field(default=())
    splits: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        n = len(self.ids)
        object.__setattr__(self, "sources", self.sources or ("",) * n)
        object.__setattr__(self, "subjects", self.subjects or ("",) * n)
        object.__setattr__(self, "splits", self.splits or (TRAIN,) * n)
        columns = (self.labels, self.sources, self.subjects, self.splits, self.features)
        assert all(len(column) == n for column in columns) and len(self.offsets) == n + 1

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | np.ndarray) -> "Samples":
        """The samples at `rows`, in that order."""
        rows = np.asarray(rows, dtype=np.int64)
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        index = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])

        def pick(column: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(column[i] for i in rows.tolist())

        return Samples(
            ids=pick(self.ids),
            labels=pick(self.labels),
            tokens=self.tokens[index],
            offsets=offsets,
            features=self.features[rows],
            sources=pick(self.sources),
            subjects=pick(self.subjects),
            splits=pick(self.splits),
        )

    def canonical(self) -> "Samples":
        """The same samples in canonical order: by id, as UTF-8 bytes."""
        order = sorted(range(len(self)), key=lambda i: self.ids[i].encode())
        return self if order == list(range(len(self))) else self.take(order)


def from_arrays(
    X: np.ndarray,
    labels: Iterable[Any],
    ids: Iterable[Any] | None = None,
    sources: Iterable[str] = (),
    dtype: str = "float16",
    *,
    subjects: Iterable[str] = (),
    splits: Iterable[str] = (),
) -> Samples:
    """Tokens [n, t, d] or features [n, d] as samples; the default ids are row numbers."""
    X, names = np.ascontiguousarray(X), tuple(str(label) for label in labels)
    keys = tuple(str(i) for i in (range(len(names)) if ids is None else ids))
    columns = [tuple(map(str, column)) for column in (sources, subjects, splits)]
    if X.ndim not in (2, 3) or not len(X) == len(names) == len(keys):
        raise InputError(
            f"X must be [n, t, d] or [n, d] with a label and an id per row, "
            f"got {X.shape}, {len(names)} labels and {len(keys)} ids"
        )
    if any(column and len(column) != len(names) for column in columns):
        raise InputError(f"sources, subjects and splits must have {len(names)} rows, got {[*map(len, columns)]}")
    tokens = X[:, None, :] if X.ndim == 2 else X
    features = X if X.ndim == 2 else X.mean(axis=1, dtype=np.float64)
    n, t, d = tokens.shape
    return Samples(
        ids=keys,
        labels=names,
        tokens=cast(tokens.reshape(n * t, d), dtype, "tokens"),
        offsets=np.arange(n + 1, dtype=np.int64) * t,
        features=cast(features, "float32", "features"),
        sources=columns[0],
        subjects=columns[1],
        splits=columns[2],
    )


def concatenate(parts: Iterable[Samples]) -> Samples:
    """All samples of the parts, one after the other."""
    parts = list(parts)
    ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])

    def join(name: str) -> tuple[str, ...]:
        return tuple(x for part in parts for x in getattr(part, name))

    return Samples(
        ids=join("ids"),
        labels=join("labels"),
        tokens=np.concatenate([part.tokens for part in parts]),
        offsets=np.concatenate([[0], *(p.offsets[1:] + end for p, end in zip(parts, ends, strict=False))]).astype(
            np.int64
        ),
        features=np.concatenate([part.features for part in parts]),
        sources=join("sources"),
        subjects=join("subjects"),
        splits=join("splits"),
    )


def cast(array: np.ndarray, dtype: str, name: str) -> np.ndarray:
    """The array as `dtype`; an error if a finite number would overflow to infinity."""
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(array, dtype=dtype)
    if found.dtype == array.dtype or largest(found) < np.inf:
        return found
    if np.isfinite(wide := np.asarray(array, np.float64)).all():
        most = float(np.abs(wide).max())
        raise InputError(f"'{name}' must fit {dtype}, got {most:.6g}: scale the numbers, or use a wider dtype")
    return found


def largest(array: np.ndarray) -> float:
    """The largest absolute value; infinity if one is infinite or NaN. Block by block, so that it needs no memory.

    NumPy compares half-precision numbers one by one in software; their bits, without the sign, have the same order.
    """
    found, flat = 0.0, array.reshape(-1)
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK]
        if block.dtype == np.float16:
            bits = int((block.view(np.uint16) & 0x7FFF).max())
            value = float(np.array(bits, np.uint16).view(np.float16))
        else:
            value = max(float(block.max()), -float(block.min()))  # NaN if one is
        if not value < np.inf:
            return np.inf
        found = max(found, value)
    return found


def check(samples: Samples) -> Samples:
    """The samples; an error that names the first invalid ones unless all can be trained on."""
    _check_shapes(samples)
    if any(not i for i in samples.ids):
        raise InputError("every sample must have an id that is not empty")
    if twice := [i for i, times in Counter(samples.ids).items() if times > 1]:
        raise DuplicateSample(f"ids must be unique, got {some(twice)} more than once", twice)
    for name in ("ids", "labels", "sources", "subjects"):
        check_text(getattr(samples, name), name)
    if any(not label for label in samples.labels):
        raise InputError("every sample must have a label that is not empty")
    odd = sorted(set(samples.splits) - {TRAIN, TEST})
    if odd:
        raise InputError(f"split must be 'train' or 'test', got {some(odd)}")
    lengths = np.diff(samples.offsets)
    if (lengths < 1).any():
        bare = [samples.ids[i] for i in np.flatnonzero(lengths < 1)]
        raise InputError(f"every sample must have at least one token, {some(bare)} has none", bare)
    if max(largest(samples.tokens), largest(samples.features)) > LARGEST:
        _raise_for_numbers(samples)
    return samples


def _check_shapes(samples: Samples) -> None:
    if samples.tokens.ndim != 2 or samples.features.ndim != 2:
        shapes = f"{samples.tokens.shape} and {samples.features.shape}"
        raise InputError(f"tokens must be [rows, d] and features must be [n, f], got {shapes}")
    steps, ends = np.diff(samples.offsets), samples.offsets[[0, -1]].tolist()
    if (steps < 0).any() or ends != [0, len(samples.tokens)]:
        raise InputError(f"offsets must rise from 0 to the {len(samples.tokens)} rows of tokens, got {ends}")


def _raise_for_numbers(samples: Samples) -> None:
    """Raise an error that names the samples with NaN, infinity, or numbers beyond `LARGEST`."""

    def having(test: Callable[[np.ndarray], np.ndarray]) -> list[str]:
        rows = np.flatnonzero(test(samples.tokens).any(axis=1))
        found = set(np.searchsorted(samples.offsets, rows, side="right") - 1)
        found |= set(np.flatnonzero(test(samples.features).any(axis=1)))
        return [samples.ids[i] for i in sorted(found)]

    if names := having(lambda x: ~np.isfinite(x)):
        raise InputError(f"embeddings must be finite, got NaN or infinity in {some(names)}", names)
    huge = having(lambda x: np.abs(x) > LARGEST)
    raise InputError(f"the numbers of embeddings must be within 2^40, got larger ones in {some(huge)}", huge)


# The file of a shard


def pack_samples(samples: Samples) -> bytes:
    """The bytes of the shard file of these samples."""
    samples = samples.canonical()
    table = sorted(set(samples.labels))
    place = {label: i for i, label in enumerate(table)}
    return pack(
        {
            "labels": np.array([place[label] for label in samples.labels], np.int32),
            "tokens": samples.tokens,
            "offsets": samples.offsets,
            "features": samples.features,
        }
        | pack_strings("ids", samples.ids)
        | pack_strings("table", table)
    )


def unpack_samples(raw: Raw | mmap) -> Samples:
    """The samples of a shard file, as views into `raw`."""
    tensors = unpack(raw)
    table = unpack_strings("table", tensors)
    return Samples(
        ids=unpack_strings("ids", tensors),
        labels=tuple(table[i] for i in tensors["labels"].tolist()),
        tokens=tensors["tokens"],
        offsets=tensors["offsets"],
        features=tensors["features"],
    )


# Tensor files


def pack(tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a tensor file; they depend on names, types, shapes and values alone."""
    return b"".join(pieces(tensors))


def pieces(tensors: Mapping[str, np.ndarray]) -> list[Raw]:
    """The pieces that `pack` joins: the header, and views of the tensors."""
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    order = sorted(arrays, key=lambda name: (_RANKS[arrays[name].dtype], name))
    header, end = {}, 0
    for name in order:
        array, start, end = arrays[name], end, end + arrays[name].nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *(_flat(arrays[name]) for name in order)]


def unpack(raw: Raw | mmap) -> dict[str, np.ndarray]:
    """The tensors of a tensor file, as views into `raw`."""
    try:
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(bytes(raw[8 : 8 + size]))
        return {name: _view(raw, 8 + size, entry) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"this is no tensor file, or it is damaged ({len(raw)} bytes)") from error


def pack_strings(name: str, strings: Iterable[str]) -> dict[str, np.ndarray]:
    """Strings as two tensors: their concatenated UTF-8 bytes, and the end of each string."""
    encoded = [string.encode() for string in strings]
    ends = np.cumsum([len(e) for e in encoded], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.ends": ends}


def unpack_strings(name: str, tensors: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The strings that `pack_strings` wrote."""
    raw, ends = tensors[f"{name}.bytes"].tobytes(), tensors[f"{name}.ends"].tolist()
    return tuple(raw[start:end].decode() for start, end in zip([0, *ends], ends, strict=False))


def _flat(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _view(raw: Raw | mmap, base: int, entry: Mapping[str, Any]) -> np.ndarray:
    start, end = entry["data_offsets"]
    dtype = np.dtype(_TYPES[entry["dtype"]])
    count = int(np.prod(entry["shape"], dtype=np.int64))
    if end - start != count * dtype.itemsize or base + end > len(raw):
        raise ValueError("torn")
    return np.frombuffer(raw, dtype, count, base + start).reshape(entry["shape"])
