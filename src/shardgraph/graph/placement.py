"""Placement: which shard a sample belongs to, and the graph that those shards form.

Topology                                                                                    kind
├── Bilevel           n_c coarse shards of n_f cliques, sources mixed (n_f = 1: SISA)       bilevel
├── BilevelAcross     the same, cut by source; equal (c, f) of all sources form a clique    bilevel-across
├── BySourceBilevel   every source sharded on its own (the paper's in-domain)               by-source-bilevel
├── BySource          one shard a source; all may learn from the safe ones                  by-source
├── OwnGraph          a graph of your own; a sample's source names its shard                graph
├── RandomDegree      n shards, each learns from d others at random                         random
└── Complete          n shards, one group                                                   complete
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from shardgraph.errors import GraphError, some
from shardgraph.graph.dealing import check_columns
from shardgraph.graph.shards import ShardGraph

Rule = Callable[[str, str, str], str]
"""(sample id, source, label) -> shard name."""

_KINDS: dict[str, type["Topology"]] = {}


@dataclass(frozen=True)
class Topology(ABC):
    """Places samples in shards and says which shard may learn from which."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.kind:
            _KINDS[cls.kind] = cls

    def place(self, sample_id: str, source: str, label: str, *, seed: int, classes: Sequence[str]) -> str:
        """The shard of a sample, whatever other samples there are, were or will be."""
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
        """The shard of every sample, as `place` gives it one by one, but quicker."""
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
        """The rule that places one sample, from that sample alone."""

    def to_json(self) -> dict[str, Any]:
        """The topology as a plain dict: its kind and its parameters."""
        return {"kind": self.kind} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Topology":
        """The topology that `to_json` wrote; parameters with a default may be left out."""
        if not isinstance(value, Mapping):
            raise GraphError(f"a topology must be a mapping with a 'kind', got {value!r}")
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise GraphError(f"kind of a topology must be one of {', '.join(sorted(_KINDS))}; got {kind!r}")
        return _made(_KINDS[kind], {name: v for name, v in value.items() if name != "kind"})


def required(source: str, sample_id: str) -> str:
    """The source, if the sample has one."""
    if not source:
        raise GraphError(f"a sample placed by its source must have one, {sample_id!r} has none", [sample_id])
    return source


def fixed(graph: ShardGraph, present: Iterable[str]) -> ShardGraph:
    """The graph as configured, if it holds all shards that are present."""
    unknown = sorted(set(present) - set(graph.shards))
    if unknown:
        raise GraphError(f"shards present must be in the topology's graph, got {some(unknown)}")
    return graph


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
