"""Embedding: records in, samples out, in order, in bounded memory, exact whatever the company.

While one part of the records passes through the network the next is decoded, and at most three parts
are under way. How many workers there are, where parts begin and which records were left out (since a
killed run did them already, say) changes no bit: see `shardgraph.embedding.backbones.base`.
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

CHUNKS = {TEXT: 1024}  # texts fill the passes of their buckets better in larger parts
_CHUNK = 256
_KEPT = 32 * 2**20 - 2**16  # the largest block that glibc can be taught to keep, nearly


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
    parts = embed_parts(records, backbone, chunk=chunk, workers=workers)
    with closing(parts):
        yield from told(parts, skip_bad=skip_bad, on_bad=on_bad, on_progress=on_progress)


@dataclass(frozen=True)
class Part:
    """Some records, embedded: the samples of those that could be read, and why the others could not."""

    samples: Samples | None
    bad: dict[str, str]
    count: int


def embed_parts(
    records: Iterable[Record], backbone: Backbone, *, chunk: int | None = None, workers: int | None = None
) -> Generator[Part, None, None]:
    """Embed records in this process, `chunk` of them at a time."""
    with _crew(backbone, workers) as crew:
        for part in _in_flight(crew, iter(records), chunk or chunk_of(backbone.modality)):
            samples = _collect(part)
            yield Part(samples, part.bad, len(part.records))


def told(
    parts: Iterable[Part],
    *,
    skip_bad: bool,
    on_bad: Callable[[str, str], None] | None,
    on_progress: Callable[[int], None] | None,
) -> Iterator[Samples]:
    """The parts' samples, while progress and what cannot be read are told as `embed` says."""
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
    """How many records make a part."""
    return CHUNKS.get(modality, _CHUNK)


@dataclass
class _Part:
    """Some records on their way: each is prepared, then it has a place in a pass through the network."""

    records: list[Record]
    prepared: list[Future[Prepared]]
    places: dict[int, tuple[Future[list[Embedded]], int]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)


Waiting = tuple[_Part, int, Prepared]


@dataclass(frozen=True)
class _Crew:
    """The threads at work: `decoders` prepare samples, `passers` run the network; `open` are batches to fill."""

    backbone: Backbone
    decoders: ThreadPoolExecutor
    passers: ThreadPoolExecutor
    open: defaultdict[Bucket, list[Waiting]] = field(default_factory=lambda: defaultdict(list))

    def pass_batch(self, batch: list[Prepared]) -> list[Embedded]:
        one_thread()
        return self.backbone.embed(batch)


@contextmanager
def _crew(backbone: Backbone, workers: int | None) -> Iterator[_Crew]:
    """Threads for the duration; on the CPU the same ones decode and pass, so that no core waits."""
    alone = backbone.device.type != "cpu" or not backbone.concurrent
    decoders = ThreadPoolExecutor(workers or min(_cores(), 8 if alone else 16), "shardgraph-decode")
    passers = ThreadPoolExecutor(1, "shardgraph-pass") if alone else decoders
    _keep_freed_memory()
    with exact_numerics():
        try:
            yield _Crew(backbone, decoders, passers)
        finally:
            for pool in (decoders, passers):
                pool.shutdown(cancel_futures=True)


def _keep_freed_memory() -> None:
    """Have the memory of a pass serve the next, where it would go back to the system and come again, page by page.

    glibc keeps what is smaller than the largest block that was ever freed, up to 32 MiB (mallopt(3), on
    M_MMAP_THRESHOLD): so one is freed. It saves thousands of page faults a picture.
    """
    np.empty(_KEPT, np.uint8)


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
            yield _flush(crew, waiting.popleft())
    if waiting:
        _start_passes(crew, waiting[-1])
    for last in waiting:
        yield _flush(crew, last)


def _start_passes(crew: _Crew, part: _Part) -> None:
    """Send a part's samples to the network, bucket by bucket, as soon as each batch is full."""
    one_thread()  # for `rows`, which may try a pass here
    for i, (record, future) in enumerate(zip(part.records, part.prepared, strict=True)):
        try:
            sample = future.result()
        except InputError as problem:
            part.bad[record.id] = str(problem)
            continue
        bucket = crew.backbone.bucket(sample)
        crew.open[bucket].append((part, i, sample))
        if len(crew.open[bucket]) == crew.backbone.rows(bucket):
            _start_pass(crew, bucket)
    part.prepared.clear()


def _flush(crew: _Crew, part: _Part) -> _Part:
    """Send the batches in which a part still waits, though the next part did not fill them either."""
    for bucket in [bucket for bucket, batch in crew.open.items() if any(one is part for one, _, _ in batch)]:
        _start_pass(crew, bucket)
    return part


def _start_pass(crew: _Crew, bucket: Bucket) -> None:
    batch = crew.open.pop(bucket)
    future = crew.passers.submit(crew.pass_batch, [sample for _, _, sample in batch])
    for row, (part, i, _) in enumerate(batch):
        part.places[i] = future, row


def _collect(part: _Part) -> Samples | None:
    """The part's samples in its records' order; None if none could be read."""
    order = sorted(part.places)
    if not order:
        return None
    records, places = [part.records[i] for i in order], [part.places[i] for i in order]
    outs = [future.result()[row] for future, row in places]
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
