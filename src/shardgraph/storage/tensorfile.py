"""Tensor files: safetensors with one spelling per content, read without copies.

The format is that of safetensors: 8 bytes of header length (little endian), a JSON header padded with spaces to a
multiple of 8, the tensors. We write what safetensors writes, sorted by type and name, with no metadata, so that equal
tensors give equal bytes; ours copies them once, or not at all.
"""

import json
from collections.abc import Iterable, Mapping
from mmap import mmap
from typing import Any

import numpy as np

from shardgraph.digest import Raw
from shardgraph.errors import DamagedFile

_TYPES = {"I64": "<i8", "F64": "<f8", "F32": "<f4", "I32": "<i4", "F16": "<f2", "U8": "u1", "BOOL": "?"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_RANKS = {dtype: rank for rank, dtype in enumerate(_NAMES)}  # the order of types in a file


def pack(tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a tensor file; a function of names, types, shapes and values alone."""
    return b"".join(pieces(tensors))


def pieces(tensors: Mapping[str, np.ndarray]) -> list[Raw]:
    """What `pack` joins: the header, and the tensors where they lie."""
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
    """The tensors of a file, as views into `raw`."""
    try:
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(bytes(raw[8 : 8 + size]))
        return {name: _view(raw, 8 + size, entry) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"this is no tensor file, or a torn one ({len(raw)} bytes)") from error


def pack_strings(name: str, strings: Iterable[str]) -> dict[str, np.ndarray]:
    """Strings as two tensors: their UTF-8 bytes laid end to end, and where each ends."""
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
