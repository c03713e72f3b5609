"""Embedding: from records to samples, in order, in bounded memory; the bits of a sample depend on that sample alone.

While one part of the records passes through the network, the next one is decoded; at most three parts are in memory.
The number of workers, the limits of parts and the records that are left out (because an interrupted run embedded them
already, say) change no bit: see `shardgraph.embedding.backbones.base`.
"""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from shardgraph.embedding.backbones.base import Backbone, Bucket, Embedded, Prepared
from shardgraph.embedding.backbones.decoders import exact_numerics, one_thread
from shardgraph.embedding.records import TEXT, Record
from shardgraph.errors import InputError, some
from shardgraph.storage.samples import Samples

CHUNKS = {TEXT: 1024}  # larger parts, because texts are batched by length
_CHUNK = 256
_KEPT = 32 * 2**20 - 2**16  # just below the largest block that glibc keeps for reuse


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

    A record that cannot be read is left out and reported to `on_bad` (id, reason). Unless `skip_bad`, an `InputError`
    with the ids of all such records is raised after the last good sample, so that one run finds all of them and loses
    nothing. `on_progress` gets the number of records done since its last call.
    """
    parts = embed_parts(records, backbone, chunk=chunk, workers=workers)
    with closing(parts):
        yield from report_parts(parts, skip_bad=skip_bad, on_bad=on_bad, on_progress=on_progress)


@dataclass(frozen=True)
class Part:
    """Some embedded records: the samples, and the reasons for records that could not be read."""

    samples: Samples | None
    bad: dict[str, str]
    count: int


def embed_parts(
    records: Iterable[Record], backbone: Backbone, *, chunk: int | None = None, workers: int | None = None
) -> Generator[Part, None, None]:
    """Embed records in this process, `chunk` of them at a time."""
    with _start_workers(backbone, workers) as threads:
        for part in _run_parts(threads, iter(records), chunk or chunk_of(backbone.modality)):
            samples = _collect(part)
            yield Part(samples, part.bad, len(part.records))


def report_parts(
    parts: Iterable[Part],
    *,
    skip_bad: bool,
    on_bad: Callable[[str, str], None] | None,
    on_progress: Callable[[int], None] | None,
) -> Iterator[Samples]:
    """The samples of the parts; progress and unreadable records are reported as described in `embed`."""
    bad: dict[str, str] = {}
    for part in parts:
        bad |= part.bad
        for name, reason in part.bad.items():
            if on_bad:
                on_bad(name, reason)
        if on_progress:
            on_progress(part.count)
        if part.samples is not None:
            yield part.samples
    if bad and not skip_bad:
        first = next(iter(bad.values()))
        raise InputError(f"samples must be readable, {some(bad)} cannot be read ({first})", bad)


def chunk_of(modality: str) -> int:
    """The number of records in a part."""
    return CHUNKS.get(modality, _CHUNK)


@dataclass
class _Part:
    """Records in progress: each is prepared, then it has a row in a pass through the network."""

    records: list[Record]
    prepared: list[Future[Prepared]]
    rows: dict[int, tuple[Future[list[Embedded]], int]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)


Waiting = tuple[_Part, int, Prepared]


@dataclass(frozen=True)
class _Workers:
    """The threads: `decoders` prepare samples, `passers` run the network; `open` are batches that are not full yet."""

    backbone: Backbone
    decoders: ThreadPoolExecutor
    passers: ThreadPoolExecutor
    open: defaultdict[Bucket, list[Waiting]] = field(default_factory=lambda: defaultdict(list))

    def pass_batch(self, batch: list[Prepared]) -> list[Embedded]:
        one_thread()
        return self.backbone.embed(batch)


@contextmanager
def _start_workers(backbone: Backbone, workers: int | None) -> Iterator[_Workers]:
    """Threads that end with the context; on the CPU the same ones decode and run the network, so that no core idles."""
    alone = backbone.device.type != "cpu" or not backbone.concurrent
    decoders = ThreadPoolExecutor(workers or min(_cores(), 8 if alone else 16), "shardgraph-decode")
    passers = ThreadPoolExecutor(1, "shardgraph-pass") if alone else decoders
    _keep_freed_memory()
    with exact_numerics():
        try:
            yield _Workers(backbone, decoders, passers)
        finally:
            for pool in (decoders, passers):
                pool.shutdown(cancel_futures=True)


def _keep_freed_memory() -> None:
    """Make glibc reuse the memory of a pass for the next one instead of returning it to the system.

    glibc keeps blocks that are smaller than the largest block ever freed, up to 32 MiB (mallopt(3), M_MMAP_THRESHOLD),
    so one of that size is allocated and freed. This saves thousands of page faults for each image.
    """
    np.empty(_KEPT, np.uint8)


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_parts(threads: _Workers, records: Iterator[Record], chunk: int) -> Iterator[_Part]:
    """The parts in order; while one is yielded, the next is in the network and the one after is decoded."""
    waiting: deque[_Part] = deque()
    while part := list(islice(records, chunk)):
        prepare = threads.backbone.prepare
        waiting.append(_Part(part, [threads.decoders.submit(prepare, record.payload) for record in part]))
        if len(waiting) > 1:
            _start_passes(threads, waiting[-2])
        if len(waiting) > 2:
            yield _flush(threads, waiting.popleft())
    if waiting:
        _start_passes(threads, waiting[-1])
    for last in waiting:
        yield _flush(threads, last)


def _start_passes(threads: _Workers, part: _Part) -> None:
    """Send the samples of a part to the network, a bucket's batch as soon as it is full."""
    one_thread()  # for `rows`, which may try a pass here
    for i, (record, future) in enumerate(zip(part.records, part.prepared, strict=True)):
        try:
            sample = future.result()
        except InputError as problem:
            part.bad[record.id] = str(problem)
            continue
        bucket = threads.backbone.bucket(sample)
        threads.open[bucket].append((part, i, sample))
        if len(threads.open[bucket]) == threads.backbone.rows(bucket):
            _start_pass(threads, bucket)
    part.prepared.clear()


def _flush(threads: _Workers, part: _Part) -> _Part:
    """Start the batches that hold samples of a part, although the next part did not fill them."""
    for bucket in [bucket for bucket, batch in threads.open.items() if any(one is part for one, _, _ in batch)]:
        _start_pass(threads, bucket)
    return part


def _start_pass(threads: _Workers, bucket: Bucket) -> None:
    batch = threads.open.pop(bucket)
    future = threads.passers.submit(threads.pass_batch, [sample for _, _, sample in batch])
    for row, (part, i, _) in enumerate(batch):
        part.rows[i] = future, row


def _collect(part: _Part) -> Samples | None:
    """The part's samples in its records' order; None if none could be read."""
    order = sorted(part.rows)
    if not order:
        return None
    records = [part.records[i] for i in order]
    outs = [future.result()[row] for future, row in (part.rows[i] for i in order)]
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
