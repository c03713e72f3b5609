"""Taking what saw the leaving samples out of service, and its bytes off the disk. Every step can be repeated."""

from collections.abc import Iterator
from pathlib import Path

from shardgraph.errors import DamagedFile
from shardgraph.forget.bench import Bench
from shardgraph.forget.build.build import (
    PROTOTYPES,
    SUBTRACTED,
    build_prototypes,
    drop_unwanted,
    prototypes_key,
    publish,
    wanted_groups,
    write_prototypes,
)
from shardgraph.forget.build.manifest import Manifest, destroy_group, load_prototypes
from shardgraph.forget.rights.provision import destroy_strays
from shardgraph.learn.prototypes import Prototypes
from shardgraph.storage.samples import TRAIN, Samples
from shardgraph.storage.store import Store

Leaving = tuple[str, str, str]  # a sample's id, its unit and its split


def withdraw(bench: Bench, leaving: list[Leaving], old: list[Path]) -> tuple[str, ...] | None:
    """Take what saw the data out of service; the classes left, if the prototypes could be had by subtraction.

    Destroying the prototypes before, which are large, is left to who reads `old`.
    """
    store, config = bench.store, bench.config
    rest = _prototypes_without(bench, [(sample, unit) for sample, unit, split in leaving if split == TRAIN])
    if rest is not None:
        write_prototypes(store, rest, SUBTRACTED, old)
    else:
        store.remove(sorted({unit for _, unit, _ in leaving}))
        build_prototypes(store, config, bench.progress, bench.numerics)
    numerics = Manifest.load(store.root).fingerprint or bench.numerics
    wanted = wanted_groups(store, config, numerics)
    classes = rest.classes if rest else None
    publish(store, config, wanted, numerics, bench.announce, classes)
    drop_unwanted(store, wanted)  # a group may have had another name when it saw them
    return classes


def erase(bench: Bench, units: list[str], groups: list[str]) -> None:
    """Rewrite the files of samples, and destroy the adapters that saw what left."""
    bench.store.remove(units)
    bench.store.drop_empty_inbox()
    destroy_strays(bench.store)
    for name in groups:
        if not bench.store.catalogue.one("SELECT 1 FROM built WHERE name = ?", f"group:{name}"):
            destroy_group(bench.store.root, name)


def _prototypes_without(bench: Bench, leaving: list[tuple[str, str]]) -> Prototypes | None:
    """The prototypes minus the leaving samples; None where a crash left too little to subtract from."""
    store = bench.store
    row = store.catalogue.one("SELECT key, digest FROM built WHERE name = ?", PROTOTYPES)
    if row is None or row[0] != prototypes_key(store, bench.config):
        return None
    try:
        return load_prototypes(store.root, row[1]).without(_samples(store, leaving), reuse=True)
    except DamagedFile:
        return None


def _samples(store: Store, leaving: list[tuple[str, str]]) -> Iterator[Samples]:
    """The leaving samples that the prototypes count, file by file."""
    for unit in sorted({unit for _, unit in leaving if unit.startswith("shard:")}):
        samples = store.read(unit, settled=True)  # what is subtracted must be what was added
        gone = {sample for sample, where in leaving if where == unit}
        yield samples.take([i for i, sample in enumerate(samples.ids) if sample in gone])
