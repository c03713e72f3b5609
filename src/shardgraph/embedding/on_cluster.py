"""Embedding on a cluster: each part of the records is one call, and parts are returned in order.

Every node loads the backbone once and keeps it. Files are read on the node that embeds the part; bytes and texts are
sent with the call. The bits equal those of `pipeline`, because they depend on neither parts nor batches, and a node
that differs in what they depend on gets no work.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from shardgraph.cluster.cluster import Cluster, Unfit
from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.backbones.registry import backbone_like
from shardgraph.embedding.pipeline import Part, chunk_of, embed_parts
from shardgraph.embedding.records import Record
from shardgraph.errors import FingerprintError, InputError, ShardgraphError

Facts = dict[str, str]


def embed_on(
    records: Iterable[Record],
    cluster: Cluster,
    identity: dict[str, Any],
    *,
    wanted: Facts,
    facts: Callable[[str], Facts],
    location: str | None = None,
    chunk: int | None = None,
) -> Generator[Part, None, None]:
    """Embed records with the backbone of this identity on the nodes whose `facts(device)` are the wanted ones.

    Every node loads it from `location`.
    """
    work = partial(embed_call, json.dumps(identity), wanted, facts, location=location)
    calls = _calls(iter(records), chunk or chunk_of(identity["modality"]))
    results = cluster.run(work, calls, gpus=int(identity["device"] == "cuda"), in_order=True)
    with closing(results):
        for call, part in results:
            yield replace(part, bad=call.bad | part.bad, count=part.count + len(call.bad))


@dataclass(frozen=True)
class Call:
    """Records to embed on some node, and those whose files do not exist on this machine either."""

    records: list[Record]
    bad: dict[str, str]


def embed_call(
    identity: str, wanted: Facts, facts: Callable[[str], Facts], call: Call, *, location: str | None = None
) -> Part | Unfit:
    """Embed one part in this process of a node, if the node has the wanted facts and can read the files."""
    found = facts(json.loads(identity)["device"])
    if found != wanted:
        names = sorted(n for n in found.keys() | wanted.keys() if found.get(n) != wanted.get(n))
        change = "; ".join(f"{n} is {found.get(n, 'unknown')!r} there, was {wanted.get(n, 'unknown')!r}" for n in names)
        return Unfit(FingerprintError(f"its embeddings would be others: {change}"))
    for record in call.records:
        if isinstance(record.payload, Path) and not record.payload.exists():
            return Unfit(InputError(f"it does not see {record.payload}; keep the data on a path that all nodes see"))
    try:
        backbone = _backbone(identity, location)
    except ShardgraphError as error:
        return Unfit(error)
    parts = list(embed_parts(call.records, backbone, chunk=max(1, len(call.records)), workers=1))
    return parts[0] if parts else Part(None, {}, 0)


@lru_cache(maxsize=1)
def _backbone(identity: str, location: str | None) -> Backbone:
    return backbone_like(json.loads(identity), location)


def _calls(records: Iterator[Record], chunk: int) -> Iterator[Call]:
    while part := list(islice(records, chunk)):
        here = [_absolute(record) for record in part]
        lost = {record.id for record in here if isinstance(record.payload, Path) and not record.payload.exists()}
        bad = {r.id: f"an image must be readable, there is no file {r.payload!s}" for r in here if r.id in lost}
        yield Call([record for record in here if record.id not in lost], bad)


def _absolute(record: Record) -> Record:
    """The record with an absolute path, which is valid in any working directory."""
    return replace(record, payload=record.payload.absolute()) if isinstance(record.payload, Path) else record
