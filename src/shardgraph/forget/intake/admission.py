"""Admission: which samples may be added to a workspace."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardgraph.errors import DuplicateSample, ForgottenSample, InputError, some
from shardgraph.forget.config import Config
from shardgraph.forget.erase.plan import forgotten_before
from shardgraph.forget.intake.first_training import shards_of
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.checksums import mark_part
from shardgraph.storage.samples import TRAIN, Samples, cast, check
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory

Arriving = tuple[str, str, str, str]
"""(sample id, source, label, split)."""

Known = tuple[str, str, str, str, str]
"""(sample id, label, source, subject, split)."""


def admit(
    samples: Samples, store: Store, config: Config, keys: Keys, *, allow_return: bool
) -> tuple[Samples, list[str]]:
    """The samples as they are stored, and the ids that return after an erasure; an error unless all may be added."""
    tokens, features = cast(samples.tokens, config.dtype, "tokens"), cast(samples.features, "float32", "features")
    samples = check(replace(samples, tokens=tokens, features=features))
    check_dims(samples, config)
    rows = list(zip(samples.ids, samples.sources, samples.labels, samples.splits, strict=True))
    return samples, admit_rows(rows, store, config, keys, allow_return=allow_return)


def check_dims(samples: Samples, config: Config) -> None:
    """Raise unless tokens and features have the dimensions of this workspace, if those are fixed."""
    dims = (samples.tokens.shape[1], samples.features.shape[1])
    if config.dims not in (None, dims):
        raise InputError(f"this workspace holds tokens and features of {config.dims} dimensions, got {dims}")


def admit_rows(rows: Sequence[Arriving], store: Store, config: Config, keys: Keys, *, allow_return: bool) -> list[str]:
    """The ids of these samples that return after an erasure; an error unless all of them may be added."""
    ids = [sample for sample, _, _, _ in rows]
    if twice := sorted(sample for sample, times in Counter(ids).items() if times > 1):
        raise DuplicateSample(f"ids must be unique, got {some(twice)} more than once", twice)
    if here := sorted(inventory.known_ids(store.catalogue, ids)):
        advice = "forget them first to replace them, or skip them with --only-new"
        raise DuplicateSample(f"already here: {some(here)}; {advice}", here)
    marks = (keys.mark("samples", sample) for sample in ids)
    store.catalogue.check("forgotten", sorted(set(map(mark_part, marks))))  # a changed mark would let a sample return
    before = forgotten_before(store.catalogue, keys, (("samples", sample) for sample in ids))
    gone = [sample for sample in ids if ("samples", sample) in before]
    if gone and not allow_return:
        raise ForgottenSample(f"forgotten before: {some(gone)}; --allow-return lets them come back", gone)
    train = [row for row in rows if row[3] == TRAIN]
    if config.trained and train:  # a sample without a shard would make every later training fail
        shards_of(config, *(tuple(row[i] for row in train) for i in range(3)))
    return gone


def find_present(samples: Iterable[Known], store: Store) -> set[str]:
    """The ids that are here already with the same label, source, subject and split; an error if one of these differs.

    The content is not compared: the catalogue does not hold it, and raw data would have to be embedded again.
    """
    given = {sample: rest for sample, *rest in samples}
    found = inventory.find_by(store.catalogue, "id", sorted(given))
    if other := [row.id for row in found if [row.label, row.source, row.subject, row.split] != given[row.id]]:
        differs = "here with another label, source, subject or split"
        raise DuplicateSample(f"{differs}: {some(other)}; forget them first to replace them", other)
    return {row.id for row in found}


def only_new(samples: Samples, store: Store) -> Samples:
    """The samples without those that the workspace holds already."""
    columns = (samples.ids, samples.labels, samples.sources, samples.subjects, samples.splits)
    here = find_present(zip(*columns, strict=True), store)
    return samples.take([i for i, sample in enumerate(samples.ids) if sample not in here]) if here else samples
