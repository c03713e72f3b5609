"""The manifest: what is served. A small file, replaced atomically, and a function of what is retained.

A group that is wanted but not built (it was withdrawn, or training was interrupted) is listed as missing.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from shardgraph.digest import canonical_json, digest
from shardgraph.errors import DamagedFile
from shardgraph.learn.adapters import Adapters
from shardgraph.learn.prototypes import Prototypes
from shardgraph.storage.files import destroy_with_folder, read_digested, read_file, write_file
from shardgraph.storage.tensorfile import unpack, unpack_strings


@dataclass(frozen=True)
class Manifest:
    """The served model by name and digest."""

    model_digest: str = ""
    groups: dict[str, str] = field(default_factory=dict)
    prototypes: str = ""
    weight: float = 1.0
    classes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    fingerprint: dict[str, str] = field(default_factory=dict)

    def save(self, root: Path) -> None:
        """Replace manifest.json, and destroy the old one: it held digests of what is gone."""
        write_file(root, root / "manifest.json", canonical_json(vars(self)) + b"\n")

    @classmethod
    def load(cls, root: Path) -> "Manifest":
        """The manifest of a workspace; an empty one before the first training."""
        path = root / "manifest.json"
        if not path.exists():
            return cls()
        try:
            value = json.loads(bytes(read_file(path)))
            return cls(**{**value, "classes": tuple(value["classes"]), "missing": tuple(value["missing"])})
        except (json.JSONDecodeError, TypeError, KeyError, UnicodeDecodeError) as error:
            raise DamagedFile(f"{path} is torn or was changed; `shardgraph train --rebuild` writes it anew") from error


def group_path(root: Path, name: str) -> Path:
    """Where a group's adapters lie."""
    stem = digest("group", name)[:32]
    return root / f"models/{stem[:2]}/{stem}.safetensors"


def prototypes_path(root: Path) -> Path:
    """Where the prototypes lie."""
    return root / "prototypes.safetensors"


def load_group(root: Path, name: str, expected: str) -> Adapters:
    """A group's adapters, checked."""
    return Adapters.from_bytes(_checked(group_path(root, name), expected))


def load_prototypes(root: Path, expected: str) -> Prototypes:
    """The prototypes, checked."""
    return Prototypes.from_bytes(_checked(prototypes_path(root), expected))


def load_classes(root: Path, expected: str) -> tuple[str, ...]:
    """The classes of the prototypes, checked with all the rest of the file, which is not taken apart."""
    return unpack_strings("classes", unpack(_checked(prototypes_path(root), expected)))


def destroy_group(root: Path, name: str) -> None:
    """Overwrite and unlink a group's adapters."""
    destroy_with_folder(group_path(root, name))


def _checked(path: Path, expected: str) -> memoryview:
    if not path.exists():
        raise DamagedFile(f"{path} is missing; `shardgraph train` builds it anew")
    raw, value = read_digested(path)
    if value != expected:
        raise DamagedFile(f"{path} is torn or was changed; `shardgraph train --rebuild` builds it anew")
    return raw
