"""Views: read access to a workspace, for display. They change nothing."""

from shardgraph.forget.build.wanted import Manifest, wanted_groups
from shardgraph.forget.context import Context
from shardgraph.forget.views.graph_view import GraphView, ShardView, view_graph, view_shard
from shardgraph.storage.samples import Samples, concatenate
from shardgraph.storage.tables import inventory


class Views:
    """The views of one workspace."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def graph(self) -> GraphView:
        """The current shard graph, with sizes, sources and what is served."""
        context = self._context
        return view_graph(context.store, context.config, Manifest.load(context.root))

    def shard(self, name: str) -> ShardView:
        """One shard: what it holds, which shards learn from it, what forgetting one of its samples costs."""
        context = self._context
        return view_shard(context.store, context.config, Manifest.load(context.root), name)

    def complete_size(self) -> tuple[int, int]:
        """The number of groups and adapters of the model when none is missing."""
        context = self._context
        wanted = wanted_groups(context.store, context.config, Manifest.load(context.root).fingerprint)
        return len(wanted), sum(group.adapters for group in wanted.values())

    def counts(self) -> dict[str, int]:
        """The number of samples, by split."""
        return inventory.count_by_split(self._context.catalogue)

    def held_out_units(self) -> list[str]:
        """The units of the samples whose split is test."""
        return [unit for unit in inventory.occupied_units(self._context.catalogue) if unit.startswith("test:")]

    def held_out(self) -> Samples | None:
        """The samples whose split is test; None if there are none."""
        units = self.held_out_units()
        return concatenate(self._context.store.read(unit) for unit in units) if units else None
