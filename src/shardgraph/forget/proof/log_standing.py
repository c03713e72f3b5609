"""How an erasure log and its workspace stand to each other: in step, or who lacks what.

The catalogue stores the last line of the log that it knows, and the line that must come next (`owed`). A record that
lacks the known line is older than the workspace, or was cut off. What follows the known line and is not owed is news:
then the whole chain is checked and every name is compared with the ledger.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardgraph.errors import DamagedFile, WorkspaceError
from shardgraph.forget.context import LOG_POINTER, Context
from shardgraph.forget.proof import log_file
from shardgraph.forget.proof.log_file import (
    ACCEPTED,
    CANCELLED,
    DROPPED,
    INTENDED,
    RETURNED,
    Chain,
    Content,
    End,
    Line,
)
from shardgraph.storage.tables import inventory, ledger


@dataclass(frozen=True)
class Standing:
    """How a record and its workspace stand to each other.

    missing       the names of accepted requests that the ledger lacks: the workspace was restored from a backup
    again         how many of them name samples that are here
    ids           those samples
    unconfirmed   the names of requests that were intended and never accepted
    lacking       the lines that the record lacks
    """

    path: Path
    end: End
    missing: tuple[str, ...] = ()
    again: int = 0
    ids: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    lacking: tuple[Content, ...] = ()
    chained: bool = True
    settled: bool = False  # whether nothing has to be written, neither here nor there
    requests: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Known:
    """What the catalogue stores: the last line that it knows, and the line that must come next."""

    end: End
    owed: Content | None


def log_path(root: Path) -> Path | None:
    """The path of the log; None if none is kept."""
    pointer = root / LOG_POINTER
    return Path(pointer.read_text(encoding="utf-8")) if pointer.exists() else None


def look(context: Context, *, full: bool = False) -> Standing:
    """How the record stands to the workspace; an error if it is missing, damaged, or older than the workspace.

    If the record ends as the catalogue knows, only its last bytes are read, unless `full`.
    """
    path = log_path(context.root)
    if path is None:
        raise DamagedFile(f"the file {context.root / LOG_POINTER} is missing, which names the record{way_out(context)}")
    try:
        return (None if full else _look_at_end(context, path)) or compare(context, path)
    except DamagedFile as error:
        raise DamagedFile(f"{error}{way_out(context)}") from error


def check(context: Context) -> None:
    """Raise unless the record is in order and no request of it must be carried out again."""
    standing = look(context)
    if standing.again:
        raise restored_error(context, standing)


def describe(context: Context) -> str:
    """What a check of the whole record found; an error if it is not in order."""
    standing = look(context, full=True)
    if standing.again:
        raise restored_error(context, standing)
    form = "chained" if standing.chained else "without a chain, which the next command that writes adds"
    never = f"; {len(standing.unconfirmed)} failed and were never confirmed" if standing.unconfirmed else ""
    return f"{standing.requests} requests in {standing.lines} lines, {form}; no sample of them is here{never}"


# Comparing


def _look_at_end(context: Context, path: Path) -> Standing | None:
    """The standing if nothing follows the line that the catalogue knows but the line that it owes; else None."""
    known = known_end(context)
    if known is None:
        return None
    owed, after = log_file.encode(context.keys, known.end, known.owed) if known.owed else (b"", known.end)
    written = log_file.ends_as_known(path, known.end, owed)
    if written is None:
        return None
    if written:
        return Standing(path, after, settled=True)
    assert known.owed is not None
    return Standing(path, known.end, lacking=(known.owed,))


def compare(context: Context, path: Path) -> Standing:
    """The standing after a check of the whole record.

    The record is read first: an accepted line is written after the commit, so a ledger that is read later has it.
    """
    raw, known = log_file.read_raw(path), known_end(context)
    if known and known.end.size > len(raw):
        raw = log_file.read_raw(path)  # another process may have written in between
    chain = log_file.parse(path, raw, context.keys)
    places = {line.end for line in chain.lines}
    if known and known.end not in places and chain.end.number <= known.end.number:  # a later one holds what it held
        raise DamagedFile(f"the record {path} lacks lines that this workspace knows: it is older, or was cut off")
    names = ledger.logged_names(context.catalogue)
    asked, accepted = asked_by(chain.lines)
    missing = {name: asked[name] for name in asked if name in accepted and name not in names}
    unconfirmed = tuple(name for name in asked if name not in accepted and name not in names)
    if chain.rest and (missing or unconfirmed):
        raise DamagedFile(f"the record {path} is damaged: its last line is not complete")
    ids, again = _here(context, missing)
    lacking = tuple(_lacking(chain, known, [name for name in asked if name in names and name not in accepted]))
    settled = not (missing or unconfirmed or lacking or chain.rest) and chain.end == _expected_end(context, known)
    count = sum(line.state == ACCEPTED for line in chain.lines)
    return Standing(
        path, chain.end, tuple(missing), again, ids, unconfirmed, lacking, chain.chained, settled, count,
        len(chain.lines),
    )  # fmt: skip


def asked_by(lines: Sequence[Line]) -> tuple[dict[str, set[str]], set[str]]:
    """By name, the marks that requests want to be gone, without what returned later; and the accepted names."""
    asked: dict[str, tuple[int, tuple[str, ...]]] = {}
    accepted, returned = set(), dict[str, int]()
    for i, line in enumerate(lines):
        if line.state == RETURNED:
            returned.update(dict.fromkeys(line.marks, i))
        elif line.state in (CANCELLED, DROPPED):
            asked.pop(line.request, None)
        elif line.state in (INTENDED, ACCEPTED):
            asked.setdefault(line.request, (i, line.marks))
            accepted |= {line.request} if line.state == ACCEPTED else set()
    wanted = {name: {mark for mark in marks if returned.get(mark, -1) < i} for name, (i, marks) in asked.items()}
    return wanted, accepted


def _here(context: Context, missing: dict[str, set[str]]) -> tuple[tuple[str, ...], int]:
    """The samples here that missing requests name, and how many of these requests name one."""
    wanted = set().union(*missing.values())
    ids = inventory.all_ids(context.catalogue) if wanted else ()
    here = {mark: sample for sample in ids if (mark := context.keys.mark("samples", sample)) in wanted}
    return tuple(sorted(here.values())), sum(not here.keys().isdisjoint(marks) for marks in missing.values())


def _lacking(chain: Chain, known: Known | None, unanswered: Sequence[str]) -> list[Content]:
    """The lines that must be added: the accepted ones of requests that the ledger has, and the one that is owed."""
    found: list[Content] = [{"state": ACCEPTED, "request": name} for name in unanswered]
    said = {(line.state, line.request) for line in chain.lines} | {(ACCEPTED, name) for name in unanswered}
    same = known is not None and known.end.number == chain.end.number
    if same and known and known.owed and (known.owed["state"], known.owed["request"]) not in said:
        found.append(known.owed)
    return found


def _expected_end(context: Context, known: Known | None) -> End | None:
    """Where a record ends to which nothing was added since the last commit but the line that was owed."""
    if known is None or known.owed is None:
        return known.end if known else None
    return log_file.encode(context.keys, known.end, known.owed)[1]


def known_end(context: Context) -> Known | None:
    """What the catalogue knows of the record; None if it has never seen one with a chain."""
    text = ledger.known_log_end(context.catalogue)
    if text is None:
        return None
    found = json.loads(text)
    return Known(End(found["digest"], found["size"], found["number"]), found["owed"])


# Errors


def way_out(context: Context) -> str:
    """What to do about a record that is not in order, for the end of a message."""
    return f": put the right file back, or begin a new record with `shardgraph record {context.root} --new FILE`"


def restored_error(context: Context, standing: Standing) -> WorkspaceError:
    """The error for a workspace that was restored from a backup."""
    count = standing.again or len(standing.missing)
    requests = f"{count} requests" if count != 1 else "1 request"
    return WorkspaceError(
        f"this workspace was restored from a backup: {requests} of the record {standing.path} must be carried out "
        f"again; `shardgraph repair {context.root}` does it"
    )
