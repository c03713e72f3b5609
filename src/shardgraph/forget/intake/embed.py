"""Embedding: from a reader's records to samples for the inbox, in parts; an interrupted call can be resumed.

All ids are checked before anything is embedded, so that a duplicate is found at once. The ledger then gets the event
`arriving` with a keyed hash of the input's name, and at the end the event `arrived`. Between the two, a repeated call
continues an interrupted one: samples that the workspace holds already count as done.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from shardgraph.cluster.cluster import Cluster
from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.backbones.decoders import decoders
from shardgraph.embedding.backbones.registry import backbone_like, load_backbone
from shardgraph.embedding.on_cluster import embed_on
from shardgraph.embedding.pipeline import Part, embed_parts, report_parts
from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.records import EMBEDDING, Record
from shardgraph.errors import BackboneError, InputError
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.intake.admission import admit_rows, find_present
from shardgraph.learn.executors import best_device
from shardgraph.learn.numerics import Numerics, fingerprint
from shardgraph.storage.samples import Samples
from shardgraph.storage.tables import inventory, ledger

PRECOMPUTED = {"name": "precomputed"}
OnBad = Callable[[str, str], None]
OnPresent = Callable[[int], None]


def backbone_identity(spec: str, *, dtype: str, **options: Any) -> dict[str, Any]:
    """The identity of a backbone, given its name; it becomes part of a new workspace's configuration."""
    if spec == PRECOMPUTED["name"]:
        if given := sorted(name for name, value in options.items() if value is not None):
            raise BackboneError(f"backbone 'precomputed' must be given without options, got {', '.join(given)}")
        return dict(PRECOMPUTED)
    return load_backbone(spec, dtype=dtype, **options).identity


def load_backbone_of(config: Config, modality: str) -> Backbone:
    """Load the workspace's backbone; an error if it does not read this kind of data, or its identity has changed."""
    return backbone_like(_reading(config, modality))


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
    parts = _embedder(context.config, reader.modality, context.cluster)
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


def _embedder(
    config: Config, modality: str, cluster: Cluster | None
) -> Callable[[Iterable[Record]], Generator[Part, None, None]]:
    """The function that embeds records: with the backbone in this process, or on the nodes of a cluster."""
    if cluster is None:
        return partial(embed_parts, backbone=load_backbone_of(config, modality))
    identity = _reading(config, modality)
    if identity["device"] == "cuda" and best_device() != "cuda":
        raise BackboneError("to embed on a cluster's GPUs, the machine that runs the command must have such a GPU, too")
    return partial(embed_on, cluster=cluster, identity=identity, wanted=embedding_facts(identity["device"]),
                   facts=embedding_facts)  # fmt: skip


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
