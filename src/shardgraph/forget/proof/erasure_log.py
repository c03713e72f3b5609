"""The erasure log: keyed hashes of what people asked to forget, in a file outside the workspace and its backups.

A workspace that is restored from a backup holds again what was forgotten after the backup was made. The log makes it
possible to find that: every line holds the marks of a request's samples and a random name, which the request's event in
the ledger holds, too. Requests whose names are missing in the restored ledger are submitted again before anything is
served. Marks are hashed with the workspace's own secret, so the file alone discloses nothing.

    {"workspace": public key}                    the first line
    {"request": name, "marks": [...]}            a request was accepted
    {"cancels": name}                            a request was cancelled
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from shardgraph.errors import ConfigError, WorkspaceError
from shardgraph.forget.context import LOG_POINTER, Context
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.catalogue import Transaction
from shardgraph.storage.files import sync_folder, write_file
from shardgraph.storage.tables import inventory, ledger


def keep_log(context: Context, path: Path) -> None:
    """Write the log to `path` from now on; the file must be new, or a log of this workspace."""
    root, keys, path = context.root, context.keys, path.resolve()
    if path.is_relative_to(root.resolve()):
        raise ConfigError(f"the record must be outside the workspace and its backups, got {path}")
    if path.exists():
        _lines(path, keys)
    else:
        _append(path, {"workspace": keys.public})
        sync_folder(path.parent)
    write_file(root, root / LOG_POINTER, str(path).encode())


def log_path(root: Path) -> Path | None:
    """The path of the log; None if none is kept."""
    pointer = root / LOG_POINTER
    return Path(pointer.read_text(encoding="utf-8")) if pointer.exists() else None


def append(context: Context, transaction: Transaction, ids: Iterable[str]) -> None:
    """Add a line for the request of the ledger's last event, in the transaction of that event; synced on return."""
    if path := log_path(context.root):
        name = os.urandom(16).hex()
        ledger.add_to_last_event(transaction, {"record": name})
        _append(path, {"request": name, "marks": sorted(context.keys.mark("samples", sample) for sample in ids)})


def append_cancelled(context: Context, number: int) -> None:
    """Add a line that cancels a request."""
    name, path = ledger.logged_name_of(context.catalogue, number), log_path(context.root)
    if path and name:
        _append(path, {"cancels": name})


def find_missing(context: Context) -> tuple[list[str], list[str]]:
    """The names of requests that the ledger does not have, and those of their samples that the workspace holds."""
    path, keys = log_path(context.root), context.keys
    if path is None:
        return [], []
    lines = _lines(path, keys)
    asked = {line["request"]: line["marks"] for line in lines if "request" in line}
    for name in {*ledger.logged_names(context.catalogue), *(line.get("cancels") for line in lines)}:
        asked.pop(name, None)
    marks = {mark for marks in asked.values() for mark in marks}
    ids = inventory.all_ids(context.catalogue) if marks else ()
    return sorted(asked), [sample for sample in ids if keys.mark("samples", sample) in marks]


def record_replay(context: Context, names: list[str]) -> None:
    """Record that the requests of these names were submitted again."""
    context.record_event("replayed", {"records": names})


def _lines(path: Path, keys: Keys) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorkspaceError(f"the record {path} cannot be read: {error.strerror}") from error
    try:
        first, *rest = text.splitlines()
        owner = json.loads(first)["workspace"]
    except (ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(f"{path} is no record, or it is damaged") from error
    if owner != keys.public:
        raise ConfigError(f"{path} is the record of another workspace")
    return [line for line in map(_parsed, rest) if line]


def _parsed(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
        return found
    except ValueError:  # cut off by a crash; this request was never confirmed
        return {}


def _append(path: Path, line: Mapping[str, object]) -> None:
    """Add a line and sync the file; if a crash cut off the last line, that line is ended first."""
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
