"""Reads the data that a command is given: samples from files, folders and texts, embedded if they are not embeddings.

Importing this module loads torch; commands import it when they run.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.readers.arrays import read_arrays
from shardgraph.embedding.readers.columns import Columns
from shardgraph.embedding.readers.folder import SUFFIXES
from shardgraph.embedding.readers.registry import read
from shardgraph.embedding.records import EMBEDDING, IMAGE, TEXT, UNLABELLED, Record
from shardgraph.errors import InputError
from shardgraph.forget import Workspace, load_backbone_of
from shardgraph.storage.samples import Samples

ARRAYS = (".npz", ".safetensors")


@dataclass(frozen=True)
class Added:
    """The number of samples that were added, that were already present, and the reason why others were skipped."""

    count: int
    present: int
    bad: dict[str, str]


def add_path(
    workspace: Workspace, path: Path, pairs: Sequence[str], *, allow_return: bool, skip_bad: bool, only_new: bool
) -> Added:
    """Add the samples at `path` to a workspace; `pairs` are the columns of a table, MEANING=NAME."""
    bad: dict[str, str] = {}
    if _are_arrays(path, pairs):
        samples = _arrays(workspace, path, labelled=True)
        count = workspace.add(samples, allow_return=allow_return, only_new=only_new)
        return Added(count, len(samples) - count, bad)
    reader = read(path, columns_of(pairs))
    name = "\n".join([str(path.resolve()), *sorted(pairs)])
    present: list[int] = []
    try:
        count = workspace.add_records(
            reader,
            name,
            allow_return=allow_return,
            skip_bad=skip_bad,
            on_bad=bad.__setitem__,
            only_new=present.append if only_new else None,
        )
        return Added(count, sum(present), bad)
    except InputError as error:
        if not bad:
            raise
        advice = "the other samples were added; correct these and add them again, or use --skip-bad"
        raise InputError(f"{error}: {advice}", error.ids) from error


def queries(workspace: Workspace, path: Path, pairs: Sequence[str]) -> Iterator[Samples]:
    """The samples at `path` for a prediction, in batches; `path` may be one image."""
    if _are_arrays(path, pairs):
        yield _arrays(workspace, path, labelled=False)
        return
    if path.suffix.lower() in SUFFIXES and path.is_file():
        yield from embed([Record(path.name, UNLABELLED, path)], _backbone(workspace, IMAGE))
        return
    reader = read(path, columns_of(pairs), labelled=False)
    yield from embed(reader, _backbone(workspace, reader.modality))


def texts(workspace: Workspace, given: Sequence[str]) -> Iterator[Samples]:
    """Texts of the command line for a prediction; the id of each is the text itself."""
    records = [Record(text or "(empty)", UNLABELLED, text) for text in given]
    yield from embed(records, _backbone(workspace, TEXT))


def columns_of(pairs: Sequence[str]) -> Columns | None:
    """The column names of a table, given as MEANING=NAME."""
    known = [field.name for field in fields(Columns)]
    named = dict(pair.partition("=")[::2] for pair in pairs)
    if odd := sorted(meaning for meaning, name in named.items() if meaning not in known or not name):
        raise InputError(f"a column must be given as MEANING=NAME, MEANING one of {', '.join(known)}; got {odd[0]!r}")
    return Columns(**named) if named else None


def read_lines(path: str) -> list[str]:
    """The lines of a text file that are not empty; "-" reads standard input."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a text file in UTF-8, got {error}") from error
    return [line.rstrip("\r") for line in text.split("\n") if line.rstrip("\r")]


def _backbone(workspace: Workspace, modality: str) -> Backbone:
    return load_backbone_of(workspace.root, workspace.config, modality, workspace.context.backbone_path)


def _are_arrays(path: Path, pairs: Sequence[str]) -> bool:
    return path.suffix.lower() in ARRAYS and not pairs


def _arrays(workspace: Workspace, path: Path, *, labelled: bool) -> Samples:
    backbone = workspace.config.backbone
    if backbone.get("modality", EMBEDDING) != EMBEDDING:
        raise InputError(
            f"the backbone of this workspace is {backbone['name']}, which does not accept embeddings, got"
            f" '{path.name}': create another workspace for them, with --backbone precomputed"
        )
    return read_arrays(path, workspace.config.dtype, labelled=labelled)
