"""Arrays: embeddings that a person made, from `.npz` (no pickles) or `.safetensors`.

    tokens    [n, t, d] floats      token embeddings; or
    features  [n, d]    floats      pooled vectors; at least one of the two must be there
    mask      [n, t]    bool, int   optional: a token whose mask is zero is left out
    labels    [n]       int, str    class names
    ids, sources, subjects, splits  [n] int or str, optional
    classes   [c]       str         optional: the names of integer labels

With features only, the features of a sample are its one token. With tokens only, the features are their mean, computed
for each sample in float64, so that the bits of a sample depend on no other. The default id of a sample is the digest of
its rows. safetensors holds no strings: there, a string column may be in the header's metadata, as a JSON list under the
same name.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from shardgraph.embedding.readers.arrayfiles import load_arrays
from shardgraph.embedding.records import Record, embedding_id
from shardgraph.embedding.remote import Place, place_of
from shardgraph.errors import InputError
from shardgraph.storage.samples import TRAIN, Samples, cast, check

PART_ROWS, PART_BYTES = 1 << 16, 32 << 20  # of records that are made into samples together
_BLOCK = 1 << 18  # numbers that are averaged together; as float64 they fit a processor's cache


def read_arrays(path: str | Place, dtype: str = "float16", *, labelled: bool = True) -> Samples:
    """All samples of an array file, checked; tokens as `dtype`, features as float32.

    Unless `labelled`, labels may be missing (each is then "?"), as for samples to predict.
    """
    arrays = load_arrays(place_of(path))
    return labelled_samples(arrays, dtype) if labelled else samples_from(arrays, dtype)


def labelled_samples(arrays: Mapping[str, np.ndarray], dtype: str = "float16") -> Samples:
    """Samples to learn from, out of arrays by name, checked."""
    _check_shapes(arrays)
    return check(_samples(arrays, dtype))


def samples_from(arrays: dict[str, np.ndarray], dtype: str = "float16") -> Samples:
    """Samples to predict, out of arrays by name; a label that is missing is "?", and the same rows may come twice."""
    rows = arrays.get("tokens", arrays.get("features", np.zeros(0)))
    arrays = {"labels": np.full(len(rows) if rows.ndim else 0, "?")} | arrays
    _check_shapes(arrays)
    samples = _samples(arrays, dtype)
    return check(samples if "ids" in arrays else replace(samples, ids=_make_distinct(samples.ids)))


def samples_in_parts(records: Iterable[Record], dtype: str) -> Iterator[Samples]:
    """The embeddings of records as samples, a bounded number of them at a time; all must have the same dimensions."""
    part, size, width = list[Record](), 0, 0
    for record in records:
        row = _payload(record)
        width = width or row.shape[-1]
        if row.shape[-1] != width:
            message = f"all embeddings must have {width} dimensions, {record.id!r} has {row.shape[-1]}"
            raise InputError(message, [record.id])
        if part and row.ndim != _payload(part[0]).ndim:
            message = f"embeddings must all be vectors or all be lists of tokens, {record.id!r} differs"
            raise InputError(message, [record.id])
        part.append(record)
        size += row.nbytes
        if len(part) == PART_ROWS or size >= PART_BYTES:
            yield _gathered(part, dtype)
            part, size = [], 0
    if part:
        yield _gathered(part, dtype)


def _payload(record: Record) -> np.ndarray:
    assert isinstance(record.payload, np.ndarray)
    return record.payload


def _gathered(records: Sequence[Record], dtype: str) -> Samples:
    rows = [_payload(record) for record in records]
    single = rows[0].ndim == 1
    lengths = np.ones(len(rows), np.int64) if single else np.array([len(row) for row in rows])
    features = np.stack(rows) if single else np.stack([_mean(row) for row in rows])

    def column(name: str) -> tuple[str, ...]:
        return tuple(getattr(record, name) for record in records)

    return Samples(
        ids=column("id"),
        labels=column("label"),
        tokens=cast(features if single else np.concatenate(rows), dtype, "tokens"),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        features=cast(features, "float32", "features"),
        sources=column("source"),
        subjects=column("subject"),
        splits=column("split"),
    )


def _make_distinct(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The ids, with a number appended to repeated ones."""
    seen: Counter[str] = Counter()
    found = []
    for name in ids:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


def _check_shapes(arrays: Mapping[str, np.ndarray]) -> None:
    found = ", ".join(f"{name} {list(array.shape)}" for name, array in sorted(arrays.items())) or "none"
    if "tokens" not in arrays and "features" not in arrays:
        raise InputError(f"arrays must hold 'tokens' [n, t, d] or 'features' [n, d], found {found}")
    if "labels" not in arrays:
        raise InputError(f"arrays must hold 'labels' [n], found {found}")
    first = arrays["tokens"] if "tokens" in arrays else arrays["features"]
    n = len(first) if first.ndim else 0
    if n == 0:
        raise InputError(f"arrays must hold at least one sample, found {found}")
    for name, array in arrays.items():
        rank = {"tokens": 3, "features": 2, "mask": 2}.get(name, 1)
        if array.ndim != rank or (name != "classes" and len(array) != n) or 0 in array.shape:
            raise InputError(f"'{name}' must have {rank} dimensions and {n} rows, found {found}")
        if rank > 1 and name != "mask" and not np.issubdtype(array.dtype, np.floating):
            raise InputError(f"'{name}' must hold floats, got {array.dtype}")
    if "mask" in arrays and ("tokens" not in arrays or arrays["mask"].shape != arrays["tokens"].shape[:2]):
        raise InputError(f"'mask' must have the first two dimensions of 'tokens', found {found}")


def _samples(part: Mapping[str, np.ndarray], dtype: str) -> Samples:
    """The samples; the numbers of one depend on no other."""
    tokens, lengths = _token_rows(part)
    n = len(lengths)
    features = part["features"] if "features" in part else _means(part, tokens, lengths)
    return Samples(
        ids=_strings(part, "ids") or tuple(_row_id(part, i) for i in range(n)),
        labels=_labels(part),
        tokens=cast(tokens, dtype, "tokens"),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        features=cast(features, "float32", "features"),
        sources=_strings(part, "sources"),
        subjects=_strings(part, "subjects"),
        splits=_strings(part, "splits") or (TRAIN,) * n,
    )


def _token_rows(part: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of all samples, one per row, and how many each sample has."""
    if "tokens" not in part:
        return part["features"], np.ones(len(part["features"]), np.int64)
    tokens = part["tokens"]
    n, t, d = tokens.shape
    if "mask" not in part:
        return tokens.reshape(n * t, d), np.full(n, t, np.int64)
    keep = part["mask"].astype(bool)
    return tokens[keep], keep.sum(axis=1)


def _means(part: Mapping[str, np.ndarray], tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The mean token of every sample, in float64; zeros where no token is left, which `check` then reports.

    The tokens of a sample are added in their order, so the bits of its mean do not depend on how many are in a block.
    """
    if "mask" in part:
        ends = np.cumsum(lengths).tolist()
        return np.stack([_mean(tokens[start:end]) for start, end in zip([0, *ends], ends, strict=False)])
    n, t, d = part["tokens"].shape
    means, step = np.empty((n, d)), max(1, _BLOCK // (t * d))
    for start in range(0, n, step):
        block = np.ascontiguousarray(part["tokens"][start : start + step], dtype=np.float64)
        means[start : start + step] = block.sum(axis=1) / t
    return means


def _mean(tokens: np.ndarray) -> np.ndarray:
    total = np.ascontiguousarray(tokens, dtype=np.float64).sum(axis=0)
    mean: np.ndarray = total / max(len(tokens), 1)
    return mean


def _labels(part: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    labels = part["labels"]
    if "classes" not in part or not np.issubdtype(labels.dtype, np.integer):
        return _strings(part, "labels")
    names = _strings(part, "classes")
    outside = [int(i) for i in labels if not 0 <= i < len(names)]
    if outside:
        raise InputError(f"integer labels must be from 0 to {len(names) - 1}, places in 'classes', got {outside[0]}")
    return tuple(names[int(i)] for i in labels)


def _strings(part: Mapping[str, np.ndarray], name: str) -> tuple[str, ...]:
    """A column as strings; () where the file has none."""
    if name not in part:
        return ()
    column = part[name]
    if column.dtype.kind == "S":
        try:
            return tuple(value.decode() for value in column.tolist())
        except UnicodeDecodeError as problem:
            raise InputError(f"'{name}' must be text in UTF-8, got {problem.object[:40]!r}") from problem
    if column.dtype.kind not in "Uiu":
        raise InputError(f"'{name}' must hold integers or strings, got {column.dtype}")
    return tuple(str(value) for value in column.tolist())


def _row_id(part: Mapping[str, np.ndarray], i: int) -> str:
    return embedding_id(**{name: part[name][i] for name in ("tokens", "mask", "features") if name in part})
