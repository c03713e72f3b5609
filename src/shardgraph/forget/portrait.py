"""The portrait of a workspace: its shard graph as it is now, with sizes, sources and what is served.

A value for those who draw. It names shards and sources, never a sample.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from shardgraph.data.store import Store
from shardgraph.forget.build import graph_over
from shardgraph.forget.config import Config
from shardgraph.forget.manifest import Manifest
from shardgraph.forget.plan import affected_groups
from shardgraph.forget.serving import withheld_rows
from shardgraph.forget.sources import terms_by_source
from shardgraph.graph import ShardGraph, expected_cost, revisited_samples

SERVING, MISSING, IDLE = "serving", "missing", "idle"


@dataclass(frozen=True)
class ShardPortrait:
    """One shard: how many samples, whose, and whether its adapters are served."""

    name: str
    group: str
    samples: int
    source: str  # "" where several sources share the shard
    state: str  # serving, missing (withdrawn), or idle (nothing to learn: prototypes answer)


@dataclass(frozen=True)
class Portrait:
    """The shards and the graph over them, and what forgetting a sample costs on average and at most."""

    graph: ShardGraph
    shards: tuple[ShardPortrait, ...]
    expected: float  # samples revisited, for a sample drawn at random, or by the sources' rates
    worst: int
    by_rates: bool  # whether any source has a rate; those without count as zero then

    @property
    def samples(self) -> int:
        """All training samples."""
        return sum(shard.samples for shard in self.shards)


def portrait(store: Store, config: Config, manifest: Manifest) -> Portrait:
    """The portrait of a trained workspace."""
    held = _sources_of_shards(store)
    graph = graph_over((f"shard:{name}" for name in held), config)
    sizes = {name: sources.total() for name, sources in held.items()}
    states = group_states(store, config, manifest)
    shards = tuple(
        ShardPortrait(name, group.name, sizes[name], _only(held[name]), states.get(group.name, IDLE))
        for group in graph.groups()
        for name in group.members
        if name in held
    )
    rates = {name: known.rate for name, known in terms_by_source(store.catalogue).items() if known.rate}
    asked = {name: sum(rates.get(s, 0.0) * n for s, n in sources.items()) for name, sources in held.items()}
    by_rates = any(asked.values())
    expected = expected_cost(graph, sizes, asked if by_rates else None) if held else 0.0
    worst = max((revisited_samples(graph, sizes, name) for name in held), default=0)
    return Portrait(graph, shards, expected, worst, by_rates)


def group_states(store: Store, config: Config, manifest: Manifest) -> dict[str, str]:
    """Which groups are served; those that could have used what waits to be forgotten are not."""
    waiting = withheld_rows(store)
    out = {group.name for group in affected_groups(store, config, waiting)} if waiting else set()
    return {name: MISSING if name in out else SERVING for name in manifest.groups} | dict.fromkeys(
        manifest.missing, MISSING
    )


def _sources_of_shards(store: Store) -> dict[str, Counter[str]]:
    held: dict[str, Counter[str]] = defaultdict(Counter)
    sql = "SELECT unit, source, count(*) FROM samples WHERE unit LIKE 'shard:%' GROUP BY unit, source"
    for unit, source, count in store.catalogue.all(sql):
        held[unit.removeprefix("shard:")][source] = count
    return held


def _only(sources: Counter[str]) -> str:
    return next(iter(sources)) if len(sources) == 1 else ""
