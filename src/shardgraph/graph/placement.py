"""Placement: which shard a sample belongs to, and the graph that the shards form.

    Topology                                                                                    kind
    ├── Bilevel           n_c coarse shards of n_f cliques, sources mixed (n_f = 1: SISA)       bilevel
    ├── BilevelAcross     the same, cut by source; equal (c, f) of all sources form a clique    bilevel-across
    ├── BySourceBilevel   every source sharded on its own (the paper's in-domain)               by-source-bilevel
    ├── BySource          one shard per source; all may learn from the safe ones                by-source
    ├── OwnGraph          a graph of your own; a sample's source names its shard                graph
    ├── RandomDegree      n shards, each learns from d others at random                         random
    └── Complete          n shards, one group                                                   complete

Shards are assigned by keyed hashes. The shard of a sample depends on its own id, source and label, on the seed and on
the declared classes; no count and no other sample enters. A sample that leaves therefore moves no other sample. The one
exception is the balanced split of a first training, see `balanced`.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

from shardgraph.digest import keyed_hash
from shardgraph.errors import GraphError, some
from shardgraph.graph.shards import ShardGraph, check_names, check_whole

Rule = Callable[[str, str, str], str]
"""(sample id, source, label) -> shard name."""

_KINDS: dict[str, type["Topology"]] = {}


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
