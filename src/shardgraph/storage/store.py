"""The erasable store: the files of samples, and the operations that keep them consistent with the catalogue.

A file of samples is called a unit: a chunk of the inbox ("inbox:3"), a shard ("shard:c0-f1"), or a bucket of samples
held out for testing ("test:7"). Before a unit is rewritten, it is marked dirty in the transaction that decides the
change. Its file is then the old one or the new one, never a mixture, and repeating the operation from either gives the
same bytes.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from shardgraph.digest import digest, keyed_hash
from shardgraph.errors import DamagedFile
from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.files import destroy_with_folder, read_file, write_file
from shardgraph.storage.samples import Samples, concatenate, pack_samples, unpack_samples
from shardgraph.storage.tables import inventory
from shardgraph.storage.tables.inventory import Row

TEST_BUCKETS = 16
SAMPLES = "shards"  # the folder of the files of training samples
CHUNK_BYTES = 64 << 20  # bytes of embeddings in one unit of the inbox
Progress = Callable[[int, int], None]
_Chunk = tuple[Samples, dict[str, int]]  # a memory-mapped unit of the inbox, and the row of every id


def shard_unit(name: str) -> str:
    """The unit of a shard."""
    return f"shard:{name}"


def test_unit(sample_id: str, seed: int) -> str:
    """The unit of a held-out sample; it depends on no other sample."""
    return f"test:{keyed_hash(seed, 'test', sample_id) % TEST_BUCKETS}"


class Store:
    """The units of a workspace. Writing needs the workspace's lock."""

    def __init__(self, root: Path, catalogue: Catalogue) -> None:
        self.root = root
        self.catalogue = catalogue

    def path(self, unit: str) -> Path:
        """The path of a unit's file; folders are named by two hex digits, because there may be thousands of files."""
        kind, _, _ = unit.partition(":")
        name = digest("unit", unit)[:32]
        folder = {"inbox": "inbox", "shard": SAMPLES, "test": "heldout"}[kind]
        return self.root / folder / name[:2] / f"{name}.safetensors"

    def read(self, unit: str, *, settled: bool = False) -> Samples:
        """The samples of a unit, checked against the digest in the catalogue.

        While a unit is dirty, the old and the new file are both accepted; with `settled`, the digest must match.
        """
        raw = read_file(self.path(unit))
        found = inventory.find_unit(self.catalogue, unit)
        if found is None or (digest(raw) != found.digest and (settled or not found.dirty)):
            raise DamagedFile(f"{self.path(unit)} ({unit}) is torn or was changed: restore it from a backup")
        return unpack_samples(raw)

    def put_inbox(self, samples: Samples, contents: Sequence[str] = ()) -> None:
        """Add checked samples to the inbox, in units of bounded size: all of them or none.

        `contents` are the keyed hashes of what the samples hold, in the same order.
        """
        units, digests = self.write_inbox(samples)
        columns = (samples.ids, samples.labels, samples.sources, samples.subjects, samples.splits, units)
        self.list_inbox(digests, (Row(*row) for row in zip(*columns, strict=True)), contents)

    def write_inbox(self, samples: Samples) -> tuple[list[str], dict[str, str]]:
        """Write the files of checked samples; returns the unit of every sample, and the digest of every unit.

        The samples are in the workspace once `list_inbox` has listed them. The catalogue lists the units before their
        files are written, so that `drop_empty_inbox` finds and destroys what a crash left.
        """
        first = inventory.last_inbox_number(self.catalogue) + 1
        chunks = {f"inbox:{first + i}": rows for i, rows in enumerate(_bounded(samples))}
        with self.catalogue.transaction() as transaction:
            inventory.add_units(transaction, chunks)
        digests = {unit: self._put_chunk(unit, samples.take(rows)) for unit, rows in chunks.items()}
        return [unit for unit, rows in chunks.items() for _ in rows], digests

    def list_inbox(
        self,
        digests: Mapping[str, str],
        rows: Iterable[Row],
        contents: Iterable[str] = (),
        also: Callable[[Transaction], None] | None = None,
    ) -> None:
        """List the samples of units that `write_inbox` wrote, in one transaction, in which `also` is called."""
        with self.catalogue.transaction() as transaction:
            inventory.record_units(transaction, digests)
            inventory.add_samples(transaction, rows, contents)
            if also is not None:
                also(transaction)

    def place(self, progress: Progress = lambda done, of: None) -> None:
        """Move every sample that has a target into its unit, and destroy the emptied inbox. Can be repeated."""
        pending = inventory.targets(self.catalogue)
        inbox = self._map_inbox() if pending else {}
        for done, unit in enumerate(pending):
            progress(done, len(pending))
            self._place_one(unit, inbox)
        progress(len(pending), len(pending))
        inbox.clear()
        self.drop_empty_inbox()

    def take_back_targets(self) -> None:
        """Clear all targets of a placement that never started."""
        with self.catalogue.transaction() as transaction:
            inventory.clear_targets(transaction)

    def remove(self, units: Iterable[str]) -> None:
        """Rewrite the dirty ones of these units without samples that the catalogue no longer lists. Can be repeated."""
        for unit in units:
            found = inventory.find_unit(self.catalogue, unit)
            if found is not None and found.dirty:
                wanted = self._ids(unit)
                self._write(unit, [self.read(unit)] if wanted else [], wanted)

    def drop_empty_inbox(self) -> None:
        """Destroy the units of the inbox that hold no waiting sample."""
        for unit in inventory.empty_inbox_units(self.catalogue):
            self._write(unit, [], set())

    def aim(self, targets: list[tuple[str, str]]) -> None:
        """Set the unit that each waiting sample belongs in, as (unit, id) pairs; `place` moves the samples."""
        with self.catalogue.transaction() as transaction:
            inventory.set_targets(transaction, {sample: unit for unit, sample in targets})

    def _put_chunk(self, unit: str, samples: Samples) -> str:
        raw = pack_samples(samples)
        write_file(self.root, self.path(unit), raw)
        return digest(raw)

    def _place_one(self, unit: str, inbox: "dict[str, _Chunk]") -> None:
        arriving = inventory.arriving(self.catalogue, unit)
        parts = [self.read(unit)] if self.path(unit).exists() else []
        for name in sorted(set(arriving.values())):
            samples, row = inbox[name]
            parts.append(samples.take([row[sample] for sample, where in arriving.items() if where == name]))
        self._write(unit, parts, self._ids(unit) | arriving.keys())

    def _ids(self, unit: str) -> set[str]:
        """The samples that the catalogue lists in a unit, found by an index; an error if that is rotten."""
        self.catalogue.check("samples", [unit])
        return {row.id for row in inventory.find_in_unit(self.catalogue, unit)}

    def _write(self, unit: str, parts: list[Samples], wanted: set[str]) -> None:
        """Write a unit that holds exactly `wanted`, taken from the parts; then record it in the catalogue."""
        if wanted:
            raw = pack_samples(_chosen(unit, parts, wanted))
            write_file(self.root, self.path(unit), raw)
        else:
            destroy_with_folder(self.path(unit))
        with self.catalogue.transaction() as transaction:
            if wanted:
                inventory.record_units(transaction, {unit: digest(raw)})
            else:
                inventory.remove_unit(transaction, unit)

    def _map_inbox(self) -> "dict[str, _Chunk]":
        """The units of the inbox, memory-mapped: after a check, only the rows that are taken are read."""
        chunks = {}
        for unit in inventory.origins(self.catalogue):
            self.read(unit)
            with self.path(unit).open("rb") as file:
                mapped = unpack_samples(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            chunks[unit] = (mapped, {sample: i for i, sample in enumerate(mapped.ids)})
        return chunks


def _bounded(samples: Samples) -> Iterator[range]:
    """Consecutive rows whose tokens and features take up to CHUNK_BYTES, or one row that takes more."""
    row = samples.tokens.shape[1] * samples.tokens.itemsize
    sizes = np.diff(samples.offsets) * row + samples.features.shape[1] * samples.features.itemsize
    start, held = 0, 0
    for i, size in enumerate(sizes.tolist()):
        if i > start and held + size > CHUNK_BYTES:
            yield range(start, i)
            start, held = i, 0
        held += size
    if len(samples):
        yield range(start, len(samples))


def _chosen(unit: str, parts: list[Samples], wanted: set[str]) -> Samples:
    """The wanted samples out of the parts, each once."""
    left, picked = set(wanted), []
    for part in parts:
        rows = [i for i, sample in enumerate(part.ids) if sample in left]
        left -= {part.ids[i] for i in rows}
        picked.append(part.take(rows))
    if left:
        raise DamagedFile(f"{unit} must hold {len(left)} samples that its file lacks", sorted(left))
    return concatenate(picked)
