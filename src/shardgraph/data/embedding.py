"""Embedding: records in, samples out, in order, in bounded memory, exact whatever the company.

While one part of the records passes through the network the next is decoded, and at most three parts
are under way. How many workers there are, where parts begin and which records were left out (since a
killed run did them already, say) changes no bit: see `shardgraph.data.backbones.base`.
"""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from shardgraph.data.backbones.base import Backbone, Bucket, Embedded, Prepared
from shardgraph.data.backbones.numerics import exact_numerics, one_thread
from shardgraph.data.records import TEXT, Record
from shardgraph.data.samples import Samples
from shardgraph.errors import InputError, some

CHUNKS = {TEXT: 2048}  # texts fill the passes of their buckets better in larger parts
_CHUNK = 256


def embed(
    records: Iterable[Record],
    backbone: Backbone,
    *,
    chunk: int | None = None,
    workers: int | None = None,
    skip_bad: bool = False,
    on_bad: Callable[[str, str], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Samples]:
    """Embed records, in their order, yielding `chunk` of them at a time.

    A record that cannot be read is left out and told to `on_bad` (id, reason). Unless `skip_bad`, an
    `InputError` that carries all such ids follows after the last good sample, so that one run finds
    them all and loses nothing. `on_progress` gets the number of records done since its last call.
    """
    bad: dict[str, str] = {}
    with _crew(backbone, workers) as crew:
        for part in _in_flight(crew, iter(records), chunk or CHUNKS.get(backbone.modality, _CHUNK)):
            samples = _collect(part)
            bad |= part.bad
            for name, reason in part.bad.items():
                if on_bad:
                    on_bad(name, reason)
            if on_progress:
                on_progress(len(part.records))
            if samples is not None:
                yield samples
    if bad and not skip_bad:
        first = next(iter(bad.values()))
        raise InputError(f"samples must be readable, {some(bad)} cannot be read ({first})", bad)


@dataclass(frozen=True)
class _Crew:
    """The threads at work: `decoders` prepare samples, `passers` run the network."""

    backbone: Backbone
    decoders: ThreadPoolExecutor
    passers: ThreadPoolExecutor

    def pass_batch(self, batch: list[Prepared]) -> list[Embedded]:
        one_thread()
        return self.backbone.embed(batch)


@dataclass
class _Part:
    """Some records on their way: prepared, then passed through the network in batches of one bucket."""

    records: list[Record]
    prepared: list[Future[Prepared]]
    passes: list[tuple[list[int], Future[list[Embedded]]]] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)


@contextmanager
def _crew(backbone: Backbone, workers: int | None) -> Iterator[_Crew]:
    """Threads for the duration; on the CPU the same ones decode and pass, so that no core waits."""
    alone = backbone.device.type != "cpu" or not backbone.concurrent
    decoders = ThreadPoolExecutor(workers or min(_cores(), 8 if alone else 16), "shardgraph-decode")
    passers = ThreadPoolExecutor(1, "shardgraph-pass") if alone else decoders
    with exact_numerics():
        try:
            yield _Crew(backbone, decoders, passers)
        finally:
            for pool in (decoders, passers):
                pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_flight(crew: _Crew, records: Iterator[Record], chunk: int) -> Iterator[_Part]:
    """The parts in order, each yielded while the next passes the network and the one after is decoded."""
    waiting: deque[_Part] = deque()
    while part := list(islice(records, chunk)):
        prepare = crew.backbone.prepare
        waiting.append(_Part(part, [crew.decoders.submit(prepare, record.payload) for record in part]))
        if len(waiting) > 1:
            _start_passes(crew, waiting[-2])
        if len(waiting) > 2:
            yield waiting.popleft()
    if waiting:
        _start_passes(crew, waiting[-1])
    yield from waiting


def _start_passes(crew: _Crew, part: _Part) -> None:
    """Send a part's samples to the network, bucket by bucket, as soon as each batch is full."""
    buckets: defaultdict[Bucket, list[tuple[int, Prepared]]] = defaultdict(list)
    one_thread()  # for `rows`, which may try a pass here
    for i, (record, future) in enumerate(zip(part.records, part.prepared, strict=True)):
        try:
            sample = future.result()
        except InputError as problem:
            part.bad[record.id] = str(problem)
            continue
        bucket = crew.backbone.bucket(sample)
        buckets[bucket].append((i, sample))
        if len(buckets[bucket]) == crew.backbone.rows(bucket):
            _start_pass(crew, part, buckets.pop(bucket))
    for batch in buckets.values():
        _start_pass(crew, part, batch)
    part.prepared.clear()


def _start_pass(crew: _Crew, part: _Part, batch: list[tuple[int, Prepared]]) -> None:
    indices, samples = [i for i, _ in batch], [sample for _, sample in batch]
    part.passes.append((indices, crew.passers.submit(crew.pass_batch, samples)))


def _collect(part: _Part) -> Samples | None:
    """The part's samples in its records' order; None if none could be read."""
    found = {i: out for indices, future in part.passes for i, out in zip(indices, future.result(), strict=True)}
    if not found:
        return None
    order = sorted(found)
    records, outs = [part.records[i] for i in order], [found[i] for i in order]
    return Samples(
        ids=tuple(record.id for record in records),
        labels=tuple(record.label for record in records),
        tokens=np.concatenate([out.tokens for out in outs]),
        offsets=np.cumsum([0, *(len(out.tokens) for out in outs)]).astype(np.int64),
        features=np.stack([out.features for out in outs]),
        sources=tuple(record.source for record in records),
        subjects=tuple(record.subject for record in records),
        splits=tuple(record.split for record in records),
    )
