"""Placement: which shard a sample belongs to, and the graph that the shards form.

    Topology                                                                                    kind
    ├── Bilevel           n_c coarse shards of n_f cliques, sources mixed (n_f = 1: SISA)       bilevel
    ├── BilevelAcross     the same, cut by source; equal (c, f) of all sources form a clique    bilevel-across
    ├── BySourceBilevel   every source sharded on its own (the paper's in-domain)               by-source-bilevel
    ├── BySource          one shard per source; all may learn from the safe ones                by-source
    ├── OwnGraph          a graph of your own; a sample's source names its shard                graph
    ├── RandomDegree      n shards, each learns from d others at random                         random
    └── Complete          n shards, one group                                                   complete

This module holds the base class and the three bilevel topologies; `sourced` and `numbered` hold the others.

Shards are assigned by keyed hashes. The shard of a sample depends on its own id, source and label, on the seed and on
the declared classes; no count and no other sample enters. A sample that leaves therefore moves no other sample. The one
exception is the balanced split of a first training, see `balanced`.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

from shardgraph.digest import keyed_hash
from shardgraph.errors import GraphError, some
from shardgraph.graph import topologies
from shardgraph.graph.shards import ShardGraph, check_names, check_whole

Rule = Callable[[str, str, str], str]
"""(sample id, source, label) -> shard name."""
Namer = Callable[[int, str, str, str], str]
"""(coarse shard, sample id, source, label) -> shard name."""
_KINDS: dict[str, type["Topology"]] = {}
_bilevel = lru_cache(maxsize=4)(topologies.bilevel)  # needed several times in a forget


@dataclass(frozen=True)
class Topology(ABC):
    """A rule that places samples in shards, and the graph of those shards."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.kind:
            _KINDS[cls.kind] = cls

    def place(self, sample_id: str, source: str, label: str, *, seed: int, classes: Sequence[str]) -> str:
        """The shard of a sample; it depends on no other sample."""
        return self._rule(seed, tuple(classes))(sample_id, source, label)

    def place_all(
        self,
        ids: Sequence[str],
        sources: Sequence[str],
        labels: Sequence[str],
        *,
        seed: int,
        classes: Sequence[str],
    ) -> list[str]:
        """The shard of every sample, equal to `place` for each, but faster."""
        check_columns(ids, sources, labels)
        return list(map(self._rule(seed, tuple(classes)), ids, sources, labels))

    def place_first(
        self,
        ids: Sequence[str],
        sources: Sequence[str],
        labels: Sequence[str],
        *,
        seed: int,
        classes: Sequence[str],
    ) -> list[str]:
        """The shard of every sample of the first training: `place_all`, unless the assignment is balanced."""
        return self.place_all(ids, sources, labels, seed=seed, classes=classes)

    @abstractmethod
    def graph(self, present: Iterable[str]) -> ShardGraph:
        """The graph, given the names of the shards that hold samples."""

    @abstractmethod
    def _rule(self, seed: int, classes: tuple[str, ...]) -> Rule:
        """The function that gives the shard of one sample."""

    def to_json(self) -> dict[str, Any]:
        """The topology as a plain dict: kind and parameters."""
        return {"kind": self.kind} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Topology":
        """The topology that `to_json` wrote; parameters with a default may be missing."""
        if not isinstance(value, Mapping):
            raise GraphError(f"a topology must be a mapping with a 'kind', got {value!r}")
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise GraphError(f"kind of a topology must be one of {', '.join(sorted(_KINDS))}; got {kind!r}")
        return _made(_KINDS[kind], {name: v for name, v in value.items() if name != "kind"})


# Bilevel topologies: coarse shards, by hash or balanced in the first training, that are cut into class cliques


@dataclass(frozen=True)
class _AnyBilevel(Topology):
    """The common part of the three; each defines the names of its shards and its graph."""

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


# The assignment of samples to coarse shards and fine cliques


def balanced(ids: Sequence[str], sources: Sequence[str], labels: Sequence[str], *, coarse: int, seed: int) -> list[int]:
    """The coarse shard of every sample in the paper's class-balanced split.

    The samples of each class are sorted by a keyed hash of (source, id) and assigned round robin, starting at a shard
    that depends on the class, so that small classes do not all go to shard 0. The shard of a sample then depends on the
    other samples of its class: the assignment is made once, is part of the graph and is kept; "never saw x" means the
    same assignment without x. Samples that are added later are placed by hash. The order of the input does not matter.
    """
    check_columns(ids, sources, labels)
    _check_unique(ids)
    check_whole("coarse", coarse, 1)
    rows: dict[str, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        rows[label].append(row)
    found = [0] * len(ids)
    for label, mine in rows.items():
        start = keyed_hash(seed, "balanced-start", label)
        mine.sort(key=lambda i: (keyed_hash(seed, "balanced", sources[i], ids[i]), sources[i], ids[i]))
        for position, row in enumerate(mine):
            found[row] = (start + position) % coarse
    return found


def coarse_of(sample_id: str, source: str, *, coarse: int, seed: int) -> int:
    """The coarse shard of a sample: a number below `coarse`, uniform over samples."""
    return keyed_hash(seed, "coarse", source, sample_id) % coarse


@lru_cache(maxsize=1024)  # holds class names, which are in the configuration anyway, and never a sample
def assign_classes(seed: int, c: int, fine: int, classes: tuple[str, ...]) -> Mapping[str, int]:
    """The fine clique of each declared class in coarse shard c: classes are spread evenly, in the order of a hash."""
    check_names(classes, "class")
    if len(classes) < fine:
        raise GraphError(f"fine must be at most the number of classes, got {fine} for {len(classes)} classes")
    order = sorted(classes, key=lambda label: (keyed_hash(seed, "fine", c, label), label))
    return MappingProxyType({label: position % fine for position, label in enumerate(order)})


def fine_of(label: str, assigned: Mapping[str, int], *, c: int, fine: int, seed: int) -> int:
    """The fine clique of a label: as assigned, or by the label's hash if it was not declared."""
    known = assigned.get(label)
    return keyed_hash(seed, "fine-late", c, label) % fine if known is None else known


# Checks and helpers


def check_source(source: str, sample_id: str) -> str:
    """The source; an error if the sample has none."""
    if not source:
        raise GraphError(f"a sample placed by its source must have one, {sample_id!r} has none", [sample_id])
    return source


def check_present(graph: ShardGraph, present: Iterable[str]) -> ShardGraph:
    """The graph; an error if it lacks a shard that is present."""
    unknown = sorted(set(present) - set(graph.shards))
    if unknown:
        raise GraphError(f"shards present must be in the topology's graph, got {some(unknown)}")
    return graph


def check_columns(ids: Sequence[str], sources: Sequence[str], labels: Sequence[str]) -> None:
    """Raise GraphError unless there is one source and one label for each id."""
    lengths = (len(ids), len(sources), len(labels))
    if len(set(lengths)) > 1:
        raise GraphError(f"ids, sources and labels must be equally many, got {', '.join(map(str, lengths))}")


def _check_unique(ids: Sequence[str]) -> None:
    twice = sorted(i for i, times in Counter(ids).items() if times > 1)
    if twice:
        raise GraphError(f"ids must be unique, got {some(twice)} more than once", twice)


def _made(cls: type[Topology], params: dict[str, Any]) -> Topology:
    odd = sorted(map(str, params.keys() - {f.name for f in fields(cls)}))
    if odd:
        raise GraphError(f"topology {cls.kind!r} must be given only its own parameters, got {some(odd)}")
    lacking = [f.name for f in fields(cls) if f.default is MISSING and f.name not in params]
    if lacking:
        raise GraphError(f"topology {cls.kind!r} must be given {some(lacking)}, got only {sorted(params)}")
    return cls(**params)


def _plain(value: Any) -> Any:
    if isinstance(value, ShardGraph):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value
