"""Taking what saw the leaving samples out of service, and its bytes off the disk. Every step can be repeated."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from shardgraph.errors import DamagedFile
from shardgraph.forget.build.build import (
    SUBTRACTED,
    build_prototypes,
    drop_unwanted,
    prototypes_key,
    publish,
    write_prototypes,
)
from shardgraph.forget.build.manifest import Manifest, destroy_group, load_prototypes
from shardgraph.forget.build.wanted import wanted_groups
from shardgraph.forget.context import Context
from shardgraph.forget.rights.provision import destroy_strays
from shardgraph.learn.prototypes import Prototypes
from shardgraph.storage.samples import TRAIN, Samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory
from shardgraph.storage.tables.erasures import Leaving


def withdraw(context: Context, leaving: Sequence[Leaving], old: list[Path]) -> tuple[str, ...] | None:
    """Take what saw the data out of service; the classes left, if the prototypes could be had by subtraction.

    Destroying the prototypes before, which are large, is left to who reads `old`.
    """
    store, config = context.store, context.config
    rest = _prototypes_without(context, [sample for sample in leaving if sample.split == TRAIN])
    if rest is not None:
        write_prototypes(store, rest, SUBTRACTED, old)
    else:
        store.remove(sorted({sample.unit for sample in leaving}))
        build_prototypes(context)
    numerics = Manifest.load(store.root).fingerprint or context.numerics
    wanted = wanted_groups(store, config, numerics)
    classes = rest.classes if rest else None
    publish(context, wanted, numerics, classes)
    drop_unwanted(store, wanted)  # a group may have had another name when it saw them
    return classes


def erase(store: Store, units: Sequence[str], groups: Sequence[str]) -> None:
    """Rewrite the files of samples, and destroy the adapters that saw what left."""
    store.remove(units)
    store.drop_empty_inbox()
    destroy_strays(store)
    built = inventory.built_groups(store.catalogue)
    for name in groups:
        if name not in built:
            destroy_group(store.root, name)


def _prototypes_without(context: Context, leaving: Sequence[Leaving]) -> Prototypes | None:
    """The prototypes minus the leaving samples; None where a crash left too little to subtract from."""
    store = context.store
    row = inventory.built_prototypes(store.catalogue)
    if row is None or row.key != prototypes_key(store, context.config):
        return None
    try:
        return load_prototypes(store.root, row.digest).without(_counted(store, leaving), reuse=True)
    except DamagedFile:
        return None


def _counted(store: Store, leaving: Sequence[Leaving]) -> Iterator[Samples]:
    """The leaving samples that the prototypes count, file by file."""
    for unit in sorted({sample.unit for sample in leaving if sample.unit.startswith("shard:")}):
        samples = store.read(unit, settled=True)  # what is subtracted must be what was added
        gone = {sample.id for sample in leaving if sample.unit == unit}
        yield samples.take([i for i, sample in enumerate(samples.ids) if sample in gone])
