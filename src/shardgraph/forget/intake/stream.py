"""Streams: parts of samples that are added together, all of them or none, while one part is in memory.

The files of a part are written when it arrives. The catalogue lists the samples at the end, in one transaction. If
anything goes wrong before, the files are destroyed; after a crash, the next command destroys them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from shardgraph.errors import DuplicateSample, some
from shardgraph.forget.context import Context
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.intake.admission import admit, only_new
from shardgraph.forget.proof import erasure_log
from shardgraph.storage.catalogue import Transaction
from shardgraph.storage.files import check_room
from shardgraph.storage.samples import Samples
from shardgraph.storage.tables import ledger
from shardgraph.storage.tables.inventory import Row

_HASH = 16  # bytes of the keyed hash of a sample's content
_Columns = tuple[tuple[str, ...], ...]


@dataclass
class Arrived:
    """What a stream brought so far: names in memory, embeddings in files that the catalogue does not list yet."""

    present: int = 0  # samples that were here already
    returning: list[str] = field(default_factory=list)  # samples that were forgotten before
    dims: tuple[int, int] | None = None
    ids: set[str] = field(default_factory=set)
    digests: dict[str, str] = field(default_factory=dict)
    columns: list[_Columns] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)  # of what the samples of a part hold, _HASH bytes each
    shared: dict[str, str] = field(default_factory=dict)  # one object for equal labels, sources, subjects and units

    def rows(self) -> Iterator[Row]:
        """The samples, as the catalogue lists them."""
        for columns in self.columns:
            for row in zip(*columns, strict=True):
                yield Row(*row)

    def contents(self) -> Iterator[str]:
        """The keyed hashes of what the samples hold, in the same order."""
        for part in self.hashes:
            for start in range(0, len(part), _HASH):
                yield part[start : start + _HASH].hex()


def add_parts(context: Context, parts: Iterable[Samples], *, allow_return: bool, skip_present: bool) -> Arrived:
    """Put the samples of all parts in the inbox, or, on an error, none of them.

    With `skip_present`, samples that the workspace holds already are passed over.
    """
    with writing(context):
        before = context.config
        arrived = Arrived(dims=before.dims)
        try:
            for part in parts:
                _add_part(context, arrived, part, allow_return, skip_present)
            if arrived.ids:
                context.save_config(replace(before, dims=arrived.dims))
                also = partial(_record_return, context, arrived.returning) if arrived.returning else None
                context.store.list_inbox(arrived.digests, arrived.rows(), arrived.contents(), also)
        except BaseException:
            context.store.drop_empty_inbox()
            context.save_config(before)
            raise
        if arrived.ids:  # outside of the above: what is listed needs the dimensions
            context.record_identity()
        if arrived.returning and context.keeps_log:
            erasure_log.confirm(context)
    return arrived


def _record_return(context: Context, ids: Sequence[str], transaction: Transaction) -> None:
    """Record that forgotten samples are here again, in the transaction that adds them."""
    ledger.add_event(transaction, "returned", {"samples": len(ids)}, context.now())
    if context.keeps_log:
        erasure_log.owe_return(context, transaction, ids)


def _add_part(context: Context, arrived: Arrived, part: Samples, allow_return: bool, skip_present: bool) -> None:
    store, given = context.store, len(part)
    part = only_new(part, store) if skip_present else part
    arrived.present += given - len(part)
    if not len(part):
        return
    config = replace(context.config, dims=arrived.dims)
    part, returning = admit(part, store, config, context.keys, allow_return=allow_return)
    if twice := sorted(arrived.ids.intersection(part.ids)):
        raise DuplicateSample(f"ids must be unique, got {some(twice)} more than once", twice)
    check_room(context.root, 2 * (part.tokens.nbytes + part.features.nbytes) + (1 << 20))
    arrived.returning += returning
    arrived.hashes.append(bytes.fromhex("".join(context.keys.contents(part))))
    arrived.dims = (part.tokens.shape[1], part.features.shape[1])
    units, digests = store.write_inbox(part)
    arrived.digests |= digests
    arrived.ids.update(part.ids)
    names = (part.labels, part.sources, part.subjects, part.splits, units)
    share = arrived.shared.setdefault
    arrived.columns.append((part.ids, *(tuple(share(name, name) for name in column) for column in names)))
