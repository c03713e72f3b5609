"""Embedding: from a reader's records to samples for the inbox, in parts; an interrupted call can be resumed.

All ids are checked before anything is embedded, so that a duplicate is found at once. The ledger then gets the event
`arriving` with a keyed hash of the input's name, and at the end the event `arrived`. Between the two, a repeated call
continues an interrupted one: samples that the workspace holds already count as done.
"""

import json
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from shardgraph.digest import canonical_json
from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.backbones.decoders import decoders
from shardgraph.embedding.backbones.registry import (
    ENVIRONMENT,
    HINT,
    backbone_like,
    find_location,
    given_location,
    is_registered,
    load_backbone,
)
from shardgraph.embedding.on_cluster import embed_on
from shardgraph.embedding.pipeline import Part, embed_parts, report_parts
from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.records import EMBEDDING, Record
from shardgraph.errors import BackboneError, ConfigError, InputError
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.intake.admission import admit_rows, find_present
from shardgraph.learn.executors import best_device
from shardgraph.learn.numerics import Numerics, fingerprint
from shardgraph.storage.files import write_file
from shardgraph.storage.samples import Samples
from shardgraph.storage.tables import inventory, ledger

PRECOMPUTED = {"name": "precomputed"}
LOCATION = "backbone.json"  # the file with the location of the backbone, if it has one
OnBad = Callable[[str, str], None]
OnPresent = Callable[[int], None]


def backbone_identity(spec: str, *, dtype: str, path: str | Path | None = None, **options: Any) -> dict[str, Any]:
    """The identity of a backbone, given its name; it becomes part of a new workspace's configuration.

    `path` is where the backbone lies, if the name does not say it; it is no part of the identity.
    """
    if spec == PRECOMPUTED["name"]:
        if given := sorted(name for name, value in (options | {"path": path}).items() if value is not None):
            raise BackboneError(f"backbone 'precomputed' must be given without options, got {', '.join(given)}")
        return dict(PRECOMPUTED)
    return load_backbone(spec, dtype=dtype, path=path, **options).identity


def backbone_location(spec: str, path: str | Path | None = None) -> str | None:
    """Where the backbone of a spec lies, as an absolute path or a name on a hub; None if its name says it all."""
    return None if spec == PRECOMPUTED["name"] else find_location(spec, path)


def new_backbone(
    backbone: str | dict[str, Any] | None, path: str | Path | None, dtype: str
) -> tuple[dict[str, Any], str | None]:
    """The identity of a new workspace's backbone, given its name or identity, and the location to keep."""
    if backbone is None or isinstance(backbone, str):
        spec = backbone or PRECOMPUTED["name"]
        return backbone_identity(spec, dtype=dtype, path=path), backbone_location(spec, path)
    return backbone, None if path is None else given_location(backbone["name"], str(path))


def save_location(root: Path, location: str) -> None:
    """Keep the location of the workspace's backbone, beside the configuration and outside all digests."""
    write_file(root, root / LOCATION, canonical_json({"location": location}) + b"\n")


def load_backbone_of(root: Path, config: Config, modality: str, path: str | None = None) -> Backbone:
    """Load the workspace's backbone from `path`, else from the place that the environment or the workspace names.

    An error if it does not read this kind of data, or its identity has changed.
    """
    identity = _reading(config, modality)
    return backbone_like(identity, _location_of(root, identity, path))


def _location_of(root: Path, identity: dict[str, Any], path: str | None) -> str | None:
    name = identity["name"]
    if (given := given_location(name, path)) is not None:
        return given
    kept = kept_location(root)
    if kept is None or not kept.startswith("python:"):
        return kept
    if is_registered(name):
        return None
    # a workspace may come from others: its word is not enough to run code
    raise BackboneError(
        f"backbone {name} must be registered in every process that uses it; this workspace was made with {kept!r}: if"
        f" you trust that code, give --backbone-path {shlex.quote(kept)} or set {ENVIRONMENT}"
    )


def kept_location(root: Path) -> str | None:
    """Where the workspace's backbone was when it was given last; None if no location is kept."""
    try:
        return str(json.loads((root / LOCATION).read_bytes())["location"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{root / LOCATION} is torn or was changed: {error}; delete it and {HINT}") from error


def embedding_facts(device: str) -> Numerics:
    """Everything that determines the bits of an embedding besides the backbone: numerics and decoders."""
    return fingerprint(device) | decoders()


def _reading(config: Config, modality: str) -> dict[str, Any]:
    """The identity of the workspace's backbone; an error if it does not read this kind of data."""
    identity, takes = config.backbone, config.backbone.get("modality", EMBEDDING)
    if modality != takes:
        raise InputError(f"this workspace's backbone is {identity['name']}, which takes {takes}s; got {modality}s")
    return identity


def embed_arriving(
    context: Context,
    reader: Reader,
    name: str,
    *,
    allow_return: bool,
    skip_bad: bool,
    on_bad: OnBad | None,
    only_new: OnPresent | None = None,
) -> Iterator[Samples]:
    """The samples still to be added, embedded; the caller adds each part before it takes the next.

    With `only_new`, records that the workspace holds already are skipped, and `only_new` is called with their number.
    """
    parts = _embedder(context, reader.modality)
    mark = context.keys.mark("arriving", name)
    resuming = _interrupted(context, mark)
    here = _here(context, reader, allow_return, resuming, only_new)
    total, done = len(reader), len(here)
    if not resuming:
        context.record_event("arriving", {"input": mark})

    def on_progress(more: int) -> None:
        nonlocal done
        done += more
        context.progress("embedding", min(done, total), total)

    left = (record for record in reader if record.id not in here)
    with closing(parts(left)) as embedded:
        yield from report_parts(embedded, skip_bad=skip_bad, on_bad=on_bad, on_progress=on_progress)
    context.record_event("arrived", {"input": mark})
    if context.backbone_path:
        given = given_location(context.config.backbone["name"], context.backbone_path)
        if given is not None and given != kept_location(context.root):
            save_location(context.root, given)


def embed_stream(context: Context, reader: Reader, *, skip_bad: bool, on_bad: OnBad | None) -> Iterator[Samples]:
    """The samples of a reader that can be read once, embedded."""
    with closing(_embedder(context, reader.modality)(iter(reader))) as embedded:
        yield from report_parts(embedded, skip_bad=skip_bad, on_bad=on_bad, on_progress=None)


def _embedder(context: Context, modality: str) -> Callable[[Iterable[Record]], Generator[Part, None, None]]:
    """The function that embeds records: with the backbone in this process, or on the nodes of a cluster."""
    root, config, cluster = context.root, context.config, context.cluster
    if cluster is None:
        return partial(embed_parts, backbone=load_backbone_of(root, config, modality, context.backbone_path))
    identity = _reading(config, modality)
    location = _location_of(root, identity, context.backbone_path)
    if location is None and identity["name"].startswith("registered:"):
        raise BackboneError(
            f"the nodes of a cluster do not have the backbone {identity['name']} that this process registered: name a"
            " function that registers it, with --backbone-path python:MODULE:FUNCTION, where all nodes can import it"
        )
    if identity["device"] == "cuda" and best_device() != "cuda":
        raise BackboneError("to embed on a cluster's GPUs, the machine that runs the command must have such a GPU, too")
    return partial(embed_on, cluster=cluster, identity=identity, location=location,
                   wanted=embedding_facts(identity["device"]), facts=embedding_facts)  # fmt: skip


def _interrupted(context: Context, mark: str) -> bool:
    """Whether a call that adds this input was started and not finished."""
    return ledger.last_event_of_input(context.catalogue, mark) == "arriving"


def _here(context: Context, reader: Reader, allow_return: bool, resuming: bool, only_new: OnPresent | None) -> set[str]:
    """The ids to skip: an interrupted call added them, or they are not new; an error unless all others may be added."""
    records = [replace(record, payload=b"") for record in reader]
    here = inventory.known_ids(context.catalogue, (record.id for record in records)) if resuming else set()
    if only_new is not None:
        rows = ((r.id, r.label, r.source, r.subject, r.split) for r in records if r.id not in here)
        passed = find_present(rows, context.store)
        here |= passed
        only_new(len(passed))
    arriving = [(r.id, r.source, r.label, r.split) for r in records if r.id not in here]
    admit_rows(arriving, context.store, context.config, context.keys, allow_return=allow_return)
    return here
