"""The record: keyed hashes of what was asked to be forgotten, in a file outside the workspace and its backups.

A workspace that is restored from a backup holds again what was forgotten since. The record says so: every line has a
name that the ledger's line of the request has, too, and the marks of its samples; whatever the restored ledger does not
know is asked for again before anything is served. Marks need the workspace's own secret, so the file alone tells
nobody anything.

    {"workspace": public key}                    the first line
    {"request": name, "marks": [...]}            a request was accepted
    {"cancels": name}                            and taken back
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from shardgraph.errors import ConfigError, WorkspaceError
from shardgraph.forget.proof.keys import Secrets
from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.files import sync_folder, write_file
from shardgraph.storage.tables import inventory, ledger

POINTER = "record"  # the file in the workspace that says where the record is


def keep_record(root: Path, secrets: Secrets, path: Path) -> None:
    """Write the record to `path` from now on; it must be new, or this workspace's."""
    path = path.resolve()
    if path.is_relative_to(root.resolve()):
        raise ConfigError(f"the record must lie outside the workspace and its backups, got {path}")
    if path.exists():
        _lines(path, secrets)
    else:
        _append(path, {"workspace": secrets.public})
        sync_folder(path.parent)
    write_file(root, root / POINTER, str(path).encode())


def record_path(root: Path) -> Path | None:
    """Where the record is; None if none is kept."""
    pointer = root / POINTER
    return Path(pointer.read_text(encoding="utf-8")) if pointer.exists() else None


def note(root: Path, secrets: Secrets, transaction: Transaction, ids: Iterable[str]) -> None:
    """Add the request that the ledger's last event accepts, in its transaction; synced when this returns."""
    if path := record_path(root):
        name = os.urandom(16).hex()
        ledger.add_to_last_event(transaction, {"record": name})
        _append(path, {"request": name, "marks": sorted(secrets.mark("samples", sample) for sample in ids)})


def note_cancelled(root: Path, catalogue: Catalogue, entry: int) -> None:
    """Add that an entry of the queue was taken back."""
    name, path = ledger.logged_name_of(catalogue, entry), record_path(root)
    if path and name:
        _append(path, {"cancels": name})


def missing(root: Path, secrets: Secrets, catalogue: Catalogue) -> tuple[list[str], list[str]]:
    """Requests that the ledger does not know, by name, and those of their samples that are here."""
    path = record_path(root)
    if path is None:
        return [], []
    lines = _lines(path, secrets)
    asked = {line["request"]: line["marks"] for line in lines if "request" in line}
    for name in {*ledger.logged_names(catalogue), *(line.get("cancels") for line in lines)}:
        asked.pop(name, None)
    marks = {mark for marks in asked.values() for mark in marks}
    ids = inventory.all_ids(catalogue) if marks else ()
    return sorted(asked), [sample for sample in ids if secrets.mark("samples", sample) in marks]


def _lines(path: Path, secrets: Secrets) -> list[dict]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorkspaceError(f"the record {path} cannot be read: {error.strerror}") from error
    try:
        first, *rest = text.splitlines()
        owner = json.loads(first)["workspace"]
    except (ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(f"{path} is no record, or a damaged one") from error
    if owner != secrets.public:
        raise ConfigError(f"{path} is the record of another workspace")
    return [line for line in map(_parsed, rest) if line]


def _parsed(text: str) -> dict:
    try:
        return json.loads(text)
    except ValueError:  # cut short by a crash, and never answered
        return {}


def _append(path: Path, line: dict) -> None:
    """Add a line and sync it; a line that a crash cut short is ended first."""
    try:
        with path.open("ab+") as file:
            if file.seek(0, os.SEEK_END) and not _ends_whole(file):
                file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise WorkspaceError(f"the record {path} cannot be written: {error.strerror}") from error


def _ends_whole(file: IO[bytes]) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
