"""One shard looked at closely: what it holds, who learns from it, what forgetting would cost."""

from collections import Counter
from dataclasses import dataclass

from shardgraph.data.store import Store, shard_unit
from shardgraph.errors import InputError
from shardgraph.forget.build import graph_over
from shardgraph.forget.config import Config
from shardgraph.forget.manifest import Manifest
from shardgraph.forget.portrait import IDLE, group_states


@dataclass(frozen=True)
class ShardView:
    """A shard; what one sample of it costs: the groups that learned from it, and the samples they are rebuilt from."""

    name: str
    group: str
    state: str
    labels: dict[str, int]
    sources: dict[str, int]
    learns_from: tuple[str, ...]  # other shards
    readers: tuple[str, ...]  # other shards whose adapters learn from it
    private: tuple[str, ...]  # those of them that do so with differential privacy
    groups: tuple[str, ...]
    adapters: int
    revisited: int
    of: int  # samples that a full retraining reads

    @property
    def samples(self) -> int:
        """How many it holds."""
        return sum(self.labels.values())

    @property
    def share(self) -> float:
        """Of a full retraining."""
        return self.revisited / self.of if self.of else 0.0


def shard_view(store: Store, config: Config, manifest: Manifest, name: str) -> ShardView:
    """A shard of a trained workspace; an error if there is none of that name with samples in it."""
    held = {unit: labels for unit, labels in store.catalogue.unit_labels().items() if unit.startswith("shard:")}
    if shard_unit(name) not in held:
        raise InputError(f"there is no shard {name!r} with samples in it")
    graph = graph_over(held, config)
    readers = sorted(graph.readers(name) - {name})
    sizes = {unit.removeprefix("shard:"): sum(labels.values()) for unit, labels in held.items()}
    affected = graph.affected([name])
    group = next(group.name for group in graph.groups() if name in group.members)
    sources = store.catalogue.all(
        "SELECT source, count(*) FROM samples WHERE unit = ? GROUP BY source", shard_unit(name)
    )
    labels = [{label for unit in map(shard_unit, found.members) for label in held.get(unit, ())} for found in affected]
    return ShardView(
        name=name,
        group=group,
        state=group_states(store, config, manifest).get(group, IDLE),
        labels=dict(Counter(held[shard_unit(name)]).most_common()),
        sources=dict(Counter(dict(sources)).most_common()),
        learns_from=tuple(sorted(graph.neighbourhood(name) - {name})),
        readers=tuple(readers),
        private=tuple(reader for reader in readers if (reader, name) in graph.private),
        groups=tuple(found.name for found in affected),
        adapters=sum(map(len, labels)),
        revisited=sum(sizes.get(shard, 0) for shard in graph.revisited([name])),
        of=sum(sizes.values()),
    )
