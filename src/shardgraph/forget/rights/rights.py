"""Rights: which part of the data a consumer may use, and their rows in the catalogue.

A right names sources and shards. It allows every training sample of those sources and in those shards, also samples
that are added later. Rights are not part of the configuration: they can be granted and revoked at any time.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from shardgraph.errors import InputError, UnknownConsumer, check_list, some
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import inventory, parties
from shardgraph.storage.tables.parties import Grant

SOURCE, SHARD = "source", "shard"


@dataclass(frozen=True)
class Right:
    """What one consumer may use; with `provision`, groups trained on that part alone are kept for it."""

    consumer: str
    sources: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    provision: bool = False

    def allows(self, unit: str, source: str) -> bool:
        """Whether a training sample of this source, in this unit, may be used."""
        return source in self.sources or unit.removeprefix("shard:") in self.shards

    def plus(self, sources: Iterable[str], shards: Iterable[str]) -> "Right":
        """The right extended by these."""
        _check_lists(sources, shards)
        more = {"sources": {*self.sources, *sources}, "shards": {*self.shards, *shards}}
        return replace(self, **{kind: tuple(sorted(names)) for kind, names in more.items()})  # type: ignore[arg-type]

    def minus(self, sources: Iterable[str], shards: Iterable[str]) -> "Right":
        """The right without these."""
        _check_lists(sources, shards)
        less = {"sources": {*self.sources} - {*sources}, "shards": {*self.shards} - {*shards}}
        return replace(self, **{kind: tuple(sorted(names)) for kind, names in less.items()})  # type: ignore[arg-type]

    def to_grant(self) -> Grant:
        """The right as a row of the catalogue."""
        return Grant(self.consumer, self.sources, self.shards, self.provision)

    def to_json(self) -> dict[str, Any]:
        """The right as a plain dict."""
        return asdict(self)


def rights_by_consumer(catalogue: Catalogue) -> dict[str, Right]:
    """Every consumer's right, by name."""
    return {name: _right(grant) for name, grant in parties.find_grants(catalogue).items()}


def right_of(catalogue: Catalogue, consumer: str) -> Right:
    """The right of a consumer; an error if it has none."""
    found = parties.find_grant(catalogue, consumer)
    if found is None:
        raise UnknownConsumer(f"{consumer!r} has no right here; `shardgraph grant` gives one", [consumer])
    return _right(found)


def granted(catalogue: Catalogue, consumer: str, sources: Iterable[str], shards: Iterable[str]) -> Right:
    """A consumer's right extended by these; an error if the workspace has no samples of that name. Changes nothing."""
    wanted = Right(consumer).plus(sources, shards)
    if not consumer or any("\ud800" <= letter <= "\udfff" for letter in consumer):
        raise InputError(f"a consumer must have a name that is valid text, got {consumer!r}")
    if not wanted.sources and not wanted.shards:
        raise InputError(f"a grant must name at least one source or shard for {consumer!r}")
    here = {SOURCE: _sources(catalogue), SHARD: _shards(catalogue)}
    for kind, names in ((SOURCE, wanted.sources), (SHARD, wanted.shards)):
        if unknown := [name for name in names if name not in here[kind]]:
            raise InputError(f"a {kind} must have samples here, got {some(unknown)}; add and train them first", unknown)
    old = rights_by_consumer(catalogue).get(consumer, Right(consumer))
    return old.plus(wanted.sources, wanted.shards)


def revoked(catalogue: Catalogue, consumer: str, sources: Iterable[str], shards: Iterable[str]) -> Right:
    """A consumer's right without these, or an empty right if none are named. Changes nothing."""
    _check_lists(sources, shards)
    old, sources, shards = right_of(catalogue, consumer), tuple(sources), tuple(shards)
    if not sources and not shards:
        return Right(consumer)
    for kind, names, held in ((SOURCE, sources, old.sources), (SHARD, shards, old.shards)):
        if unknown := sorted(set(names) - set(held)):
            raise InputError(
                f"{consumer!r} has no right over {kind} {some(unknown)}; it has {some(held) or 'none'}", unknown
            )
    return old.minus(sources, shards)


def _right(grant: Grant) -> Right:
    return Right(grant.consumer, grant.sources, grant.shards, grant.provision)


def _check_lists(sources: Iterable[str], shards: Iterable[str]) -> None:
    check_list(sources, "the sources of a right")
    check_list(shards, "the shards of a right")


def _sources(catalogue: Catalogue) -> set[str]:
    return set(inventory.count_by_source(catalogue))


def _shards(catalogue: Catalogue) -> set[str]:
    units = inventory.occupied_units(catalogue)
    return {unit.removeprefix("shard:") for unit in units if unit.startswith("shard:")}
