"""Views: what is in a workspace, for those who look. They change nothing, and name no sample unless asked for one."""

from shardgraph.forget.build.wanted import Manifest, wanted_groups
from shardgraph.forget.context import Context
from shardgraph.forget.views.graph_view import GraphView, ShardView, view_graph, view_shard
from shardgraph.storage.samples import Samples, concatenate
from shardgraph.storage.tables import inventory


class Views:
    """Looks at one workspace."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def graph(self) -> GraphView:
        """The shard graph as it is now, with sizes, sources and what is served."""
        context = self._context
        return view_graph(context.store, context.config, Manifest.load(context.root))

    def shard(self, name: str) -> ShardView:
        """One shard: what it holds, who learns from it, what forgetting a sample of it costs."""
        context = self._context
        return view_shard(context.store, context.config, Manifest.load(context.root), name)

    def complete_size(self) -> tuple[int, int]:
        """How many groups and adapters the model has when nothing is missing."""
        context = self._context
        wanted = wanted_groups(context.store, context.config, Manifest.load(context.root).fingerprint)
        return len(wanted), sum(group.adapters for group in wanted.values())

    def counts(self) -> dict[str, int]:
        """How many samples there are, by split."""
        return inventory.count_by_split(self._context.catalogue)

    def held_out_units(self) -> list[str]:
        """The files of the samples whose split is test."""
        return [unit for unit in inventory.occupied_units(self._context.catalogue) if unit.startswith("test:")]

    def held_out(self) -> Samples | None:
        """The samples whose split is test."""
        units = self.held_out_units()
        return concatenate(self._context.store.read(unit) for unit in units) if units else None
