"""The three bilevel topologies: coarse shards by hash (or balanced in the first training), cut into class cliques."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

from shardgraph.errors import GraphError
from shardgraph.graph import topologies
from shardgraph.graph.placement import (
    Rule,
    Topology,
    assign_classes,
    balanced,
    check_columns,
    check_present,
    check_source,
    coarse_of,
    fine_of,
)
from shardgraph.graph.shards import ShardGraph, check_whole

Namer = Callable[[int, str, str, str], str]
"""(coarse shard, sample id, source, label) -> shard name."""

_bilevel = lru_cache(maxsize=4)(topologies.bilevel)  # needed several times in a forget


@dataclass(frozen=True)
class _AnyBilevel(Topology):
    """What the three share; each defines the names of its shards and its graph."""

    coarse: int
    fine: int
    assignment: str = "hash"

    def __post_init__(self) -> None:
        check_whole("coarse", self.coarse, 1)
        check_whole("fine", self.fine, 1)
        if self.assignment not in ("hash", "balanced"):
            raise GraphError(f"assignment must be 'hash' or 'balanced', got {self.assignment!r}")

    def place_first(
        self,
        ids: Sequence[str],
        sources: Sequence[str],
        labels: Sequence[str],
        *,
        seed: int,
        classes: Sequence[str],
    ) -> list[str]:
        """The shard of every sample of the first training; `balanced` explains the balanced assignment."""
        if self.assignment == "hash":
            return self.place_all(ids, sources, labels, seed=seed, classes=classes)
        check_columns(ids, sources, labels)
        coarse = self._split(ids, sources, labels, seed)
        return list(map(self._namer(seed, tuple(classes)), coarse, ids, sources, labels))

    def _split(self, ids: Sequence[str], sources: Sequence[str], labels: Sequence[str], seed: int) -> list[int]:
        return balanced(ids, sources, labels, coarse=self.coarse, seed=seed)

    def _rule(self, seed: int, classes: tuple[str, ...]) -> Rule:
        name, coarse = self._namer(seed, classes), self.coarse
        return lambda i, source, label: name(coarse_of(i, source, coarse=coarse, seed=seed), i, source, label)

    def _namer(self, seed: int, classes: tuple[str, ...]) -> Namer:
        fine, cliques = self.fine, self._cliques
        assigned: dict[int, Mapping[str, int]] = {}

        def name(c: int, sample_id: str, source: str, label: str) -> str:
            if c not in assigned:
                assigned[c] = assign_classes(seed, c, fine, classes)
            f = fine_of(label, assigned[c], c=c, fine=fine, seed=seed)
            return self._shard_name(cliques[c * fine + f], sample_id, source)

        return name

    def _shard_name(self, clique: str, sample_id: str, source: str) -> str:
        return f"{check_source(source, sample_id)}/{clique}"

    def _clique_of(self, shard: str) -> str:
        # The clique follows the last slash, so a source may contain slashes.
        source, _, clique = shard.rpartition("/")
        if not source or clique not in self._known_cliques:
            raise GraphError(f"a shard of {self.kind!r} must be named 'source/cX-fY', got {shard!r}")
        return clique

    @cached_property
    def _cliques(self) -> tuple[str, ...]:
        return topologies.bilevel_names(self.coarse, self.fine)

    @cached_property
    def _known_cliques(self) -> frozenset[str]:
        return frozenset(self._cliques)


@dataclass(frozen=True)
class Bilevel(_AnyBilevel):
    """n_c coarse shards of n_f cliques each, sources mixed; with fine = 1 the uniform sharding of SISA.

    >>> Bilevel(4, 2).place("img-7", "ann", "cat", seed=0, classes=["cat", "dog"])
    'c1-f0'
    """

    kind: ClassVar[str] = "bilevel"

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """All n_c * n_f shards, isolated; see `topologies.bilevel`."""
        return check_present(_bilevel(self.coarse, self.fine), present)

    def _shard_name(self, clique: str, sample_id: str, source: str) -> str:
        return clique


@dataclass(frozen=True)
class BilevelAcross(_AnyBilevel):
    """Bilevel shards cut by source, 'source/cX-fY'; those with equal (c, f) learn from each other.

    Meant for few sources (the paper's cross-domain): a clique of m sources has m (m - 1) edges.
    """

    kind: ClassVar[str] = "bilevel-across"

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """The shards present; equal (c, f) of all sources form a clique."""
        parts: dict[str, list[str]] = defaultdict(list)
        for shard in set(present):
            parts[self._clique_of(shard)].append(shard)
        return topologies.cliques(parts.values())


@dataclass(frozen=True)
class BySourceBilevel(_AnyBilevel):
    """Every source sharded on its own, 'source/cX-fY', no edges between them (the paper's in-domain)."""

    kind: ClassVar[str] = "by-source-bilevel"

    def graph(self, present: Iterable[str]) -> ShardGraph:
        """The shards present, isolated."""
        return topologies.isolated(shard for shard in set(present) if self._clique_of(shard))

    def _split(self, ids: Sequence[str], sources: Sequence[str], labels: Sequence[str], seed: int) -> list[int]:
        """Balanced within each source, so that the assignment of a source depends on no other source."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, source in enumerate(sources):
            rows[source].append(row)
        found = [0] * len(ids)
        for source, mine in rows.items():
            columns = [ids[i] for i in mine], [source] * len(mine), [labels[i] for i in mine]
            for row, c in zip(mine, balanced(*columns, coarse=self.coarse, seed=seed), strict=True):
                found[row] = c
        return found
