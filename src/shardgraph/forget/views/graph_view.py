"""The current shard graph with sizes, sources and what is served; and the details of one shard.

These are values for display. They name shards and sources, never a sample.
"""

from collections import Counter
from dataclasses import dataclass

from shardgraph.errors import InputError
from shardgraph.forget.build.wanted import Manifest, graph_over, labels_in
from shardgraph.forget.config import Config
from shardgraph.forget.erase.plan import affected_groups
from shardgraph.forget.intake.sources import terms_by_source
from shardgraph.forget.views.served import withheld_rows
from shardgraph.graph import ShardGraph, expected_cost, revisited_samples
from shardgraph.storage.store import Store, shard_unit
from shardgraph.storage.tables import inventory

SERVING, MISSING, IDLE = "serving", "missing", "idle"


@dataclass(frozen=True)
class ShardSummary:
    """One shard: its number of samples, their source, and whether its adapters are served."""

    name: str
    group: str
    samples: int
    source: str  # "" if several sources share the shard
    state: str  # serving, missing (withdrawn), or idle (nothing to learn: only prototypes predict)


@dataclass(frozen=True)
class GraphView:
    """The shards and the graph over them, and what forgetting a sample costs on average and at most."""

    graph: ShardGraph
    shards: tuple[ShardSummary, ...]
    expected: float  # samples read again, for a sample drawn uniformly, or by the sources' rates
    worst: int
    by_rates: bool  # whether any source has a rate; then sources without one count as zero

    @property
    def samples(self) -> int:
        """The number of training samples."""
        return sum(shard.samples for shard in self.shards)


def view_graph(store: Store, config: Config, manifest: Manifest) -> GraphView:
    """The graph of a trained workspace."""
    held = _sources_of_shards(store)
    graph = graph_over((f"shard:{name}" for name in held), config)
    sizes = {name: sources.total() for name, sources in held.items()}
    states = group_states(store, config, manifest)
    shards = tuple(
        ShardSummary(name, group.name, sizes[name], _only(held[name]), states.get(group.name, IDLE))
        for group in graph.groups()
        for name in group.members
        if name in held
    )
    rates = {name: known.rate for name, known in terms_by_source(store.catalogue).items() if known.rate}
    asked = {name: sum(rates.get(s, 0.0) * n for s, n in sources.items()) for name, sources in held.items()}
    by_rates = any(asked.values())
    trained = held if config.the_recipe().has_adapters else {}
    expected = expected_cost(graph, sizes, asked if by_rates else None) if trained else 0.0
    worst = max((revisited_samples(graph, sizes, name) for name in trained), default=0)
    return GraphView(graph, shards, expected, worst, by_rates)


def group_states(store: Store, config: Config, manifest: Manifest) -> dict[str, str]:
    """The state of every group; groups that could have used withheld samples are missing."""
    waiting = withheld_rows(store)
    out = {group.name for group in affected_groups(store, config, waiting)} if waiting else set()
    return {name: MISSING if name in out else SERVING for name in manifest.groups} | dict.fromkeys(
        manifest.missing, MISSING
    )


def _sources_of_shards(store: Store) -> dict[str, Counter[str]]:
    found = inventory.shard_sources(store.catalogue)
    return {unit.removeprefix("shard:"): Counter(sources) for unit, sources in found.items()}


def _only(sources: Counter[str]) -> str:
    return next(iter(sources)) if len(sources) == 1 else ""


@dataclass(frozen=True)
class ShardView:
    """A shard, and what forgetting one of its samples costs: the groups to rebuild and the samples read for that."""

    name: str
    group: str
    state: str
    labels: dict[str, int]
    sources: dict[str, int]
    learns_from: tuple[str, ...]  # other shards that hold samples
    readers: tuple[str, ...]  # other shards whose adapters learn from it
    private: tuple[str, ...]  # those of the readers that learn with differential privacy
    groups: tuple[str, ...]
    adapters: int
    revisited: int
    of: int  # samples that a full retraining reads

    @property
    def samples(self) -> int:
        """The number of its samples."""
        return sum(self.labels.values())

    @property
    def share(self) -> float:
        """`revisited` as a share of a full retraining."""
        return self.revisited / self.of if self.of else 0.0


def view_shard(store: Store, config: Config, manifest: Manifest, name: str) -> ShardView:
    """A shard of a trained workspace; an error if no shard of that name holds samples."""
    held = {
        unit: labels for unit, labels in inventory.unit_labels(store.catalogue).items() if unit.startswith("shard:")
    }
    if shard_unit(name) not in held:
        raise InputError(f"there is no shard {name!r} with samples in it")
    graph = graph_over(held, config)
    others = {unit.removeprefix("shard:") for unit in held} - {name}
    readers = sorted(graph.readers(name) & others)
    sizes = {unit.removeprefix("shard:"): sum(labels.values()) for unit, labels in held.items()}
    changed = [name] if config.the_recipe().has_adapters else []
    affected = graph.affected(changed)
    group = next(group.name for group in graph.groups() if name in group.members)
    sources = inventory.unit_sources(store.catalogue, shard_unit(name))
    labels = [labels_in(found.members, held) for found in affected]
    return ShardView(
        name=name,
        group=group,
        state=group_states(store, config, manifest).get(group, IDLE),
        labels=dict(Counter(held[shard_unit(name)]).most_common()),
        sources=dict(Counter(sources).most_common()),
        learns_from=tuple(sorted(graph.neighbourhood(name) & others)),
        readers=tuple(readers),
        private=tuple(reader for reader in readers if (reader, name) in graph.private),
        groups=tuple(found.name for found in affected),
        adapters=sum(map(len, labels)),
        revisited=sum(sizes.get(shard, 0) for shard in graph.revisited(changed)),
        of=sum(sizes.values()),
    )
