"""Array files (.npz, .safetensors) as NumPy arrays by name; nothing in a file is executed."""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shardgraph.embedding.remote import Place, RemotePath
from shardgraph.errors import InputError

Check = Callable[[Mapping[str, tuple[int, ...]]], None]  # of arrays' shapes, by name
NAMES = ("tokens", "features", "mask", "labels", "ids", "sources", "subjects", "splits", "classes")
_TORN = (OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, AttributeError, RuntimeError)
_SINGULAR = {"label": "labels", "id": "ids", "source": "sources", "subject": "subjects", "split": "splits"}


def load_arrays(path: Place) -> dict[str, np.ndarray]:
    """The arrays of a file with known names; others are ignored. A file at a URL is read into memory."""
    if isinstance(path, Path) and not path.is_file():
        raise InputError(f"an array file must exist, '{path}' does not")
    if path.suffix.lower() == ".npz":
        return _load_npz(path if isinstance(path, Path) else io.BytesIO(path.read_bytes()), path.name)
    if path.suffix.lower() == ".safetensors":
        return _load_safetensors(path)
    raise InputError(f"arrays must be in .npz or .safetensors files, got '{path.name}'")


def parse_arrays(raw: bytes, most: int, check: Check) -> dict[str, np.ndarray]:
    """The arrays of a file that was sent; refused if they would take more than `most` bytes unpacked.

    `check` raises for shapes that it does not accept: it is called before anything is unpacked, and for what was read.
    """
    if raw[:2] == b"PK":
        _check_archive(raw, most, check)
        arrays = _load_npz(io.BytesIO(raw), "what was sent")
    else:
        arrays = _parse_safetensors(raw)
    check({name: array.shape for name, array in arrays.items()})
    return arrays


def _check_archive(raw: bytes, most: int, check: Check) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as packed:
            size = sum(part.file_size for part in packed.infolist())
            shapes = {} if size > most else _shapes(packed)
    except _TORN as problem:
        raise InputError("what was sent must be a whole .npz or .safetensors file") from problem
    if size > most:
        raise InputError(f"arrays must take at most {most:,} bytes unpacked, got {size:,}")
    if any(math.prod(shape) > size for shape in shapes.values()):
        raise InputError("what was sent must be a whole .npz file, its headers promise more than it holds")
    check(shapes)


def _shapes(packed: zipfile.ZipFile) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of an archive, from their headers; NumPy reads no more than the headers declare."""
    found = {}
    for part in packed.namelist():
        name = _name(part.removesuffix(".npy"))
        if name in NAMES:
            with packed.open(part) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                found[name] = read(file)[0]
    return found


def _name(key: str) -> str:
    return _SINGULAR.get(key, key)


def _load_npz(path: Path | io.BytesIO, called: str) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                if _name(key) in NAMES:
                    arrays[_name(key)] = _plain(file, key, called)
    except _TORN as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"'{called}' must be a whole .npz file, got {problem}") from problem
    return arrays


def _plain(file: np.lib.npyio.NpzFile, key: str, called: str) -> np.ndarray:
    try:
        return file[key]
    except ValueError as problem:
        if "pickle" not in str(problem):
            raise
        hint = "save it as a plain array of numbers or fixed-width strings (dtype 'U')"
        raise InputError(f"'{key}' in '{called}' is pickled and is not loaded: {hint}") from problem


def _load_safetensors(path: Place) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load

    tensors: dict[str, Any] = {}
    try:
        if isinstance(path, RemotePath):
            raw = path.read_bytes()
            tensors = load(raw)
            metadata = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")]).get("__metadata__")
        else:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                for key in file.keys():  # noqa: SIM118 (not a dict: it has no __iter__)
                    if _name(key) in NAMES:
                        tensors[key] = file.get_tensor(key)
    except (OSError, SafetensorError) as problem:
        raise InputError(f"'{path.name}' must be a whole .safetensors file, got {problem}") from problem
    columns = {_name(k): _json_column(k, text, path.name) for k, text in (metadata or {}).items() if _name(k) in NAMES}
    floats = {k: t.float() if str(t.dtype) == "torch.bfloat16" else t for k, t in tensors.items() if _name(k) in NAMES}
    return columns | {_name(key): tensor.numpy() for key, tensor in floats.items()}


def _parse_safetensors(raw: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return {_name(key): tensor for key, tensor in load(raw).items() if _name(key) in NAMES}
    except (SafetensorError, KeyError, ValueError, TypeError) as problem:
        raise InputError("what was sent must be a whole .npz or .safetensors file of plain numbers") from problem


def _json_column(key: str, text: str, called: str) -> np.ndarray:
    try:
        values = json.loads(text)
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"metadata '{key}' of '{called}' must be a JSON list of strings, got {text[:40]!r}")
    return np.array(values, dtype=np.str_)
