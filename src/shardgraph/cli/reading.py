"""Reads the data that a command is given: samples at paths and URLs, and texts, embedded if they are not embeddings.

Importing this module loads torch; commands import it when they run.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.readers.columns import Columns
from shardgraph.embedding.records import TEXT, UNLABELLED, Record
from shardgraph.errors import InputError
from shardgraph.forget import Workspace, load_backbone_of, queries_at
from shardgraph.storage.samples import Samples


@dataclass(frozen=True)
class Added:
    """The number of samples that were added, that were already present, and the reason why others were skipped."""

    count: int
    present: int
    bad: dict[str, str]


def add_path(
    workspace: Workspace, path: str | Path, pairs: Sequence[str], *, allow_return: bool, skip_bad: bool, only_new: bool
) -> Added:
    """Add the samples at a path or a URL to a workspace; `pairs` are the columns of a table, MEANING=NAME."""
    bad: dict[str, str] = {}
    present: list[int] = []
    try:
        count = workspace.add(
            path,
            columns=named_columns(pairs),
            allow_return=allow_return,
            skip_bad=skip_bad,
            only_new=only_new,
            on_bad=bad.__setitem__,
            on_present=present.append,
        )
        return Added(count, sum(present), bad)
    except InputError as error:
        if not bad:
            raise
        advice = "the other samples were added; correct these and add them again, or use --skip-bad"
        raise InputError(f"{error}: {advice}", error.ids) from error


def queries(workspace: Workspace, path: str, pairs: Sequence[str]) -> Iterator[Samples]:
    """The samples at a path or a URL for a prediction, in batches; it may be one image."""
    yield from queries_at(workspace.context, path, named_columns(pairs))


def texts(workspace: Workspace, given: Sequence[str]) -> Iterator[Samples]:
    """Texts of the command line for a prediction; the id of each is the text itself."""
    records = [Record(text or "(empty)", UNLABELLED, text) for text in given]
    yield from embed(records, _backbone(workspace, TEXT))


def named_columns(pairs: Sequence[str]) -> dict[str, str]:
    """The column names of a table, given as MEANING=NAME."""
    known = [field.name for field in fields(Columns)]
    named = dict(pair.partition("=")[::2] for pair in pairs)
    if odd := sorted(meaning for meaning, name in named.items() if meaning not in known or not name):
        raise InputError(f"a column must be given as MEANING=NAME, MEANING one of {', '.join(known)}; got {odd[0]!r}")
    return named


def read_lines(path: str) -> list[str]:
    """The lines of a text file that are not empty; "-" reads standard input."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a text file in UTF-8, got {error}") from error
    return [line.rstrip("\r") for line in text.split("\n") if line.rstrip("\r")]


def _backbone(workspace: Workspace, modality: str) -> Backbone:
    return load_backbone_of(workspace.root, workspace.config, modality, workspace.context.backbone_path)
