"""Sums over the samples that a right allows, updated by addition and subtraction where that is exact.

Summing all samples again takes time in proportion to their number. A serving process keeps the last sums of a right and
the fingerprints of its samples. While the samples that left can still be read, subtracting them gives the same integers
as summing again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shardgraph.digest import digest
from shardgraph.errors import DamagedFile
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory

Chosen = Mapping[str, set[str]]  # unit -> ids


@dataclass(frozen=True)
class Part:
    """The summed part of one unit: the digest of its file at that time, and a fingerprint of every sample by id."""

    digest: str
    prints: Mapping[str, str]


@dataclass(frozen=True)
class RightSums:
    """Prototypes, and the parts that they sum, by unit."""

    prototypes: Prototypes
    parts: Mapping[str, Part]


def sum_allowed(store: Store, chosen: Chosen, recipe: Recipe, before: RightSums | None = None) -> RightSums:
    """The sums of these samples: updated from `before` where that is exact, otherwise summed again."""
    return (before and _changed(store, chosen, before)) or _anew(store, chosen, recipe)


def _anew(store: Store, chosen: Chosen, recipe: Recipe) -> RightSums:
    parts: dict[str, Part] = {}
    digests = inventory.unit_digests(store.catalogue)

    def samples() -> Iterator[Samples]:
        for unit, ids in chosen.items():
            found = _taken(store.read(unit), ids)
            if len(found) != len(ids):
                raise DamagedFile(f"{unit} must hold {len(ids)} samples of a right, its file has {len(found)}")
            parts[unit] = Part(digests[unit], _prints(found))
            yield found

    return RightSums(total(samples(), second_order=recipe.second_order, expansion=recipe.expansion), parts)


def _changed(store: Store, chosen: Chosen, before: RightSums) -> RightSums | None:
    """The sums `before`, minus samples that left, plus new ones; None if a sample that left cannot be read any more."""
    prototypes, parts, digests = before.prototypes, dict(before.parts), inventory.unit_digests(store.catalogue)
    for unit in sorted(before.parts.keys() | chosen.keys()):
        old, wanted = before.parts.get(unit, Part("", {})), chosen.get(unit, set())
        if old.digest == digests.get(unit) and old.prints.keys() == wanted:
            continue
        if unit not in digests:
            return None
        found = _taken(store.read(unit), {*old.prints, *wanted})
        prints = _prints(found)
        if any(prints.get(sample) != known for sample, known in old.prints.items()) or not wanted <= prints.keys():
            return None
        prototypes = prototypes.minus(_taken(found, old.prints.keys() - wanted))
        prototypes = prototypes.plus(_taken(found, wanted - old.prints.keys()))
        parts[unit] = Part(digests[unit], {sample: prints[sample] for sample in wanted})
    return RightSums(prototypes, {unit: part for unit, part in parts.items() if part.prints})


def _taken(samples: Samples, ids: set[str]) -> Samples:
    rows = [i for i, sample in enumerate(samples.ids) if sample in ids]
    return samples if len(rows) == len(samples) else samples.take(rows)


def _prints(samples: Samples) -> dict[str, str]:
    ends = samples.offsets.tolist()
    return {
        sample: digest(
            samples.labels[i], samples.tokens[ends[i] : ends[i + 1]].tobytes(), samples.features[i].tobytes()
        )
        for i, sample in enumerate(samples.ids)
    }
