"""The erasure log: keyed hashes of what people asked to forget, in a file outside the workspace and its backups.

A workspace that is restored from a backup holds again what was forgotten after the backup was made. The log makes it
possible to find that: every line holds the random name of a request, which the ledger holds, too. Requests whose names
are missing in the restored ledger are carried out again before anything is served or predicted. Marks are hashed with
the workspace's own secret, so the file alone discloses nothing.

A request is written in three steps: the line `intended`, the commit of the catalogue, the line `accepted`. An intended
line without an accepted one is resolved against the ledger: if the ledger has the name, the accepted line is added; if
not, the request was never confirmed to anybody, and is dropped.

The commit also stores the last line that the workspace knows. All lines are written within a transaction of the
catalogue, so that only one process writes at a time. `log_file` describes the lines, `log_standing` compares.
"""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from shardgraph.errors import ConfigError, DamagedFile, WorkspaceError
from shardgraph.forget.context import LOG_POINTER, Context
from shardgraph.forget.proof import log_file
from shardgraph.forget.proof.log_file import ACCEPTED, CANCELLED, DROPPED, INTENDED, RETURNED, Content, End
from shardgraph.forget.proof.log_standing import asked_by, compare, known_end, log_path, look, restored_error, way_out
from shardgraph.storage.catalogue import Transaction
from shardgraph.storage.files import write_file
from shardgraph.storage.tables import erasures, inventory, ledger, requests

# Writing what happens


def append(context: Context, transaction: Transaction, ids: Iterable[str]) -> None:
    """Record the request of the ledger's last event, in the event's transaction; `confirm` it after the commit."""
    name, path = os.urandom(16).hex(), _path(context)
    content = {"state": INTENDED, "request": name, "marks": _marks(context, ids)}
    end = log_file.append(path, context.keys, _settle(context, transaction), [content])
    ledger.add_to_last_event(transaction, {"record": name})
    _save(transaction, end, {"state": ACCEPTED, "request": name})


def owe_return(context: Context, transaction: Transaction, ids: Iterable[str]) -> None:
    """Record that samples were added again, in the transaction of the ledger's event; `confirm` it after the commit."""
    name = os.urandom(16).hex()
    ledger.add_to_last_event(transaction, {"record": name})
    content = {"state": RETURNED, "request": name, "marks": _marks(context, ids)}
    _save(transaction, _settle(context, transaction), content)


def owe_cancellation(context: Context, transaction: Transaction, number: int) -> None:
    """Record that a request is cancelled, in the transaction that does it; `confirm` it after the commit."""
    if name := ledger.logged_name_of(context.catalogue, number):
        _save(transaction, _settle(context, transaction), {"state": CANCELLED, "request": name})


def confirm(context: Context) -> None:
    """Add the line that must follow the last commit; synced on return."""
    try:
        with context.catalogue.transaction() as transaction:
            _settle(context, transaction)
    except WorkspaceError as error:
        unfinished = "the workspace has committed this, and the record lacks its line until a later command writes it"
        raise type(error)(f"{error}; {unfinished}") from error


def settle(context: Context) -> None:
    """Bring record and catalogue in step: add the lines that the record lacks, and store its last line as known."""
    with context.catalogue.transaction() as transaction:
        if not look(context).settled:
            _save(transaction, _settle(context, transaction), None)


def record_replay(context: Context, transaction: Transaction, names: Sequence[str]) -> None:
    """Record that the requests of these names were submitted again, in the transaction that does it."""
    ledger.add_event(transaction, "replayed", {"records": sorted(names)}, context.now())


def _settle(context: Context, transaction: Transaction) -> End:
    """Add the lines that the record lacks, and return its end; an error if requests must be carried out again."""
    standing = look(context)
    if standing.missing:
        raise restored_error(context, standing)
    if not standing.chained:
        take_over(context, transaction)
        standing = look(context)
    dropped = [{"state": DROPPED, "request": name} for name in standing.unconfirmed]
    end = log_file.append(standing.path, context.keys, standing.end, [*standing.lacking, *dropped])
    if dropped:
        context.notes.append(
            f"requests of the record that failed, were never confirmed and are dropped: {len(dropped)}"
        )
    return end


def _save(transaction: Transaction, end: End, owed: Content | None) -> None:
    ledger.save_known_log_end(transaction, json.dumps(asdict(end) | {"owed": owed}))


# Keeping a record


def keep_log(context: Context, path: Path) -> None:
    """Write the log to `path` from now on: a new file, for which this needs the lock, or a record of this workspace."""
    path = _outside(context, path)
    if path.exists() or (context.keeps_log and path == log_path(context.root)):
        try:
            compare(context, path)
        except DamagedFile as error:
            raise DamagedFile(f"{error}{way_out(context)}") from error
        if path != log_path(context.root):
            write_file(context.root, context.root / LOG_POINTER, str(path).encode())
        return
    if context.keeps_log:
        standing = look(context, full=True)
        if standing.missing:
            raise restored_error(context, standing)
    _begin(context, path, (), 0)


def begin_anew(context: Context, path: Path) -> str:
    """Begin a new record with everything that this workspace and the readable lines of the old record know.

    Returns what is wrong with the old record; "" if nothing is, or there was none. Needs the lock.
    """
    path, before = _outside(context, path), log_path(context.root)
    if path.exists():
        raise ConfigError(f"a new record needs a new file, {path} exists; name another")
    again, number = set[str](), 0
    wrong = "it could not be read" if context.keeps_log else ""
    with suppress(WorkspaceError):
        found = log_file.salvage(log_file.read_raw(before or path), context.keys)
        known, number = known_end(context), found.end.number
        wrong = f"{found.unreadable} of its lines could not be read" if found.unreadable else ""
        if not wrong and known and known.end.digest not in {line.end.digest for line in found.lines}:
            wrong = "it lacks lines that this workspace knows"
        asked, accepted = asked_by(found.lines)
        names = ledger.logged_names(context.catalogue)
        honoured = asked.keys() if wrong else asked.keys() & accepted  # what cannot be read may have accepted it
        again = {mark for name in honoured - names for mark in asked[name]}
    _begin(context, path, again, number)
    return wrong


def take_over(context: Context, transaction: Transaction) -> None:
    """Give a record of an earlier version its chain, and say so."""
    path = _path(context)
    old = log_file.parse(path, log_file.read_raw(path), context.keys)
    if old.chained:
        return
    contents = [
        {"state": line.state, "request": line.request} | ({"marks": list(line.marks)} if line.marks else {})
        for line in old.lines
    ]
    raw, ends = log_file.encode_all(context.keys, 1, contents)
    log_file.write_new(path, raw, replace=True)
    taken = {"lines": len(contents), "unreadable": old.unreadable}
    ledger.add_event(transaction, "recording", taken, context.now())
    _save(transaction, ends[0], None)
    lost = f"; {old.unreadable} lines could not be read and are lost" if old.unreadable else ""
    context.notes.append(
        f"the record {path} was written by an earlier version, without a chain: its {len(contents)} lines were taken "
        f"over as they were found, changes made to them before now cannot be detected{lost}"
    )


def _begin(context: Context, path: Path, again: Iterable[str], after: int) -> None:
    """Begin a record with what was forgotten, the requests that wait, and the marks to be forgotten `again`.

    Its number is above `after` and above the number of the record that the catalogue knows.
    """
    catalogue, keys, again, before = context.catalogue, context.keys, set(again), known_end(context)
    number = max(after, before.end.number if before else 0) + 1
    here = {keys.mark("samples", sample) for sample in inventory.all_ids(catalogue)}
    gone, name = sorted((erasures.forgotten_marks(catalogue) - here) | again), os.urandom(16).hex()
    with catalogue.transaction() as transaction:
        contents: list[Content] = [{"state": ACCEPTED, "request": name, "marks": gone}] if gone else []
        for waiting in requests.withholding_requests(catalogue):
            known = ledger.logged_name_of(catalogue, waiting)
            if known is None:
                known = os.urandom(16).hex()
                ledger.add_event(transaction, "recording", {"entry": waiting, "record": known}, context.now())
            marks = _marks(context, requests.withheld_by(catalogue, [waiting]))
            contents.append({"state": ACCEPTED, "request": known, "marks": marks})
        raw, ends = log_file.encode_all(keys, number, contents)
        log_file.write_new(path, raw)
        if again & here:  # the ledger does not get the name: the samples are forgotten again at once
            _save(transaction, ends[0], None)
        else:
            ledger.add_event(transaction, "recording", {"record": name}, context.now())
            _save(transaction, ends[-1], None)
    write_file(context.root, context.root / LOG_POINTER, str(path).encode())
    waits = len(contents) - bool(gone)
    context.notes.append(
        f"a record begins in {path}, with {len(gone)} names forgotten so far and {waits} requests that wait"
    )


# Helpers


def _marks(context: Context, ids: Iterable[str]) -> list[str]:
    return sorted(context.keys.mark("samples", sample) for sample in ids)


def _path(context: Context) -> Path:
    return log_path(context.root) or look(context).path


def _outside(context: Context, path: Path) -> Path:
    path = path.resolve()
    if path.is_relative_to(context.root.resolve()):
        raise ConfigError(f"the record must be outside the workspace and its backups, got {path}")
    return path
