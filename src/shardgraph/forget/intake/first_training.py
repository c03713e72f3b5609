"""Training: which configuration the first one fixes, which unit each sample belongs in, and the order of the steps.

`plan_configuration` only reads; `aim_samples` writes. No sample is moved before both have checked their input.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardgraph.errors import ConfigError, InputError
from shardgraph.forget.build.build import build
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.graph import Topology
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.files import check_room
from shardgraph.storage.samples import TEST, TRAIN
from shardgraph.storage.store import Store, shard_unit, test_unit
from shardgraph.storage.tables import inventory

if TYPE_CHECKING:
    from shardgraph.learn.private.accounting.budget import Budget
    from shardgraph.learn.private.accounting.terms import PrivacyTerms


def place_and_build(
    context: Context,
    topology: Topology | None,
    recipe: Recipe | None,
    privacy: "PrivacyTerms | None",
    budget: "Budget | None",
    *,
    rebuild: bool,
) -> Manifest:
    """Place the samples of the inbox in shards and build what is missing; the steps of a training. Needs the lock."""
    store = context.store
    if not rebuild:
        context.check_numerics()
    if privacy is not None and budget is not None:
        privacy = replace(privacy, budget=budget)
    first = not context.config.trained
    config = plan_configuration(store, context.config, topology, recipe, privacy)
    if config.privacy is not None or budget is not None:
        from shardgraph.forget.privacy.private_edges import check_releases, with_budget

        config = with_budget(store, config, budget)
        if not first:
            check_releases(store, config, waiting_shards(store, config), rebuild=rebuild)
    if rebuild:
        with context.catalogue.transaction() as transaction:
            inventory.clear_built_keys(transaction)
    if first:
        aim_samples(store, config, first=True)
    context.save_config(config)
    aim_samples(store, config)
    store.place(lambda done, of: context.progress("placing", done, of))
    manifest = build(context)
    detail = {"model": context.keys.mark(manifest.model_digest), "groups": len(manifest.groups)}
    context.record_event("trained", detail | {"config": context.keys.mark("config", config.basis)})
    context.record_identity()
    context.catalogue.scrub()
    return manifest


def plan_configuration(
    store: Store,
    config: Config,
    topology: Topology | None,
    recipe: Recipe | None,
    privacy: "PrivacyTerms | None" = None,
) -> Config:
    """The configuration that a training would use; the first one fixes topology, recipe, class list and privacy.

    This changes nothing. A later training may give the same values again, but no others.
    """
    if config.trained:
        _check_unchanged(config, topology, recipe, privacy)
        return config
    if topology is None:
        raise ConfigError("the first training needs a topology; give --coarse and --fine, or --topology")
    labels, dims = inventory.training_labels(store.catalogue), config.dims
    if not labels or dims is None:
        raise InputError("there is nothing to train on: first add samples whose split is train")
    classes = tuple(sorted(labels)) if config.classes is None else config.classes
    config = replace(config, classes=classes, topology=topology.to_json())
    if privacy is not None or topology.graph(()).private:
        from shardgraph.forget.privacy.private_edges import private_recipe, settled_terms

        recipe = private_recipe(recipe)
        sizes = Counter(waiting_shards(store, config, first=True))
        terms = settled_terms(topology.graph(sizes), sizes, privacy)
        config = replace(config, privacy=terms.to_json() if terms else None)
    recipe = recipe or Recipe()
    recipe.head_count(dims[0])
    return replace(config, recipe=recipe.to_json())


def waiting_shards(store: Store, config: Config, *, first: bool = False) -> list[str]:
    """The shard that every training sample in the inbox belongs to."""
    rows = [row for row in inventory.waiting_rows(store.catalogue) if row.split == TRAIN]
    return shards_of(config, *([getattr(row, name) for row in rows] for name in ("id", "source", "label")), first=first)


def aim_samples(store: Store, config: Config, *, first: bool = False) -> None:
    """Assign a unit to every waiting sample; it depends on the sample's own id, source and label alone.

    In the first training a balanced assignment depends on all samples together. Targets of a first training that was
    interrupted before its configuration was written are cleared first.
    """
    if first:
        store.take_back_targets()
    rows = inventory.unassigned_rows(store.catalogue)
    if not rows:
        return
    store.catalogue.check("samples", sorted({row.unit for row in rows}))  # they decide where a sample is placed
    train = [row for row in rows if row.split == TRAIN]
    ids, sources, labels = ([getattr(row, name) for row in train] for name in ("id", "source", "label"))
    shards = shards_of(config, ids, sources, labels, first=first)
    targets = [(shard_unit(shard), sample) for sample, shard in zip(ids, shards, strict=True)]
    targets += [(test_unit(row.id, config.seed), row.id) for row in rows if row.split == TEST]
    _check_files(store, {unit for unit, _ in targets})
    store.aim(targets)


def shards_of(
    config: Config, ids: Sequence[str], sources: Sequence[str], labels: Sequence[str], *, first: bool = False
) -> list[str]:
    """The shard of every sample; an error if the graph does not have it."""
    topology = config.the_topology()
    place = topology.place_first if first else topology.place_all
    shards = place(ids, sources, labels, seed=config.seed, classes=config.classes or ())
    topology.graph(set(shards))
    return shards


def _check_unchanged(
    config: Config, topology: Topology | None, recipe: Recipe | None, privacy: "PrivacyTerms | None"
) -> None:
    """Raise if a value differs from what the first training fixed."""
    if privacy is not None:
        from shardgraph.forget.privacy.private_edges import check_same_terms

        check_same_terms(config, privacy)
    for name, given in (("topology", topology), ("recipe", recipe)):
        fixed = getattr(config, name)
        if given is not None and given.to_json() != fixed:
            raise ConfigError(
                f"the first training fixed the {name} as {fixed}, got {given.to_json()}; "
                "leave it out, or make a new workspace"
            )


def _check_files(store: Store, targets: set[str]) -> None:
    """Raise if a file that will be read or rewritten is damaged, or the disk has no room; nothing is moved before."""
    inbox = [unit for unit in inventory.occupied_units(store.catalogue) if unit.startswith("inbox:")]
    room = sum(samples.tokens.nbytes + samples.features.nbytes for samples in map(store.read, inbox))
    rewritten = [unit for unit in inventory.unit_digests(store.catalogue) if unit in targets]
    largest = max((store.read(unit).tokens.nbytes for unit in rewritten), default=0)
    check_room(store.root, room + 3 * largest + (1 << 20))
