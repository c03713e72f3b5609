"""Private edges in training: what the first training fixes, and what must hold before anything is released."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardgraph.errors import ConfigError, InputError, WorkspaceError
from shardgraph.forget.build.wanted import Wanted, graph_over
from shardgraph.forget.config import Config
from shardgraph.forget.privacy.charges import Charges, removals_left, worst_guarantee, worst_loss
from shardgraph.graph import ShardGraph
from shardgraph.learn.private.accounting.budget import Budget, check_target
from shardgraph.learn.private.accounting.closeness import require
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory, ledger

SPENT = "the budget {} is spent: {}; give a larger one (--alpha-budget, --beta-budget), or make a new workspace"


def settled_terms(graph: ShardGraph, sizes: Counter[str], terms: PrivacyTerms | None) -> PrivacyTerms | None:
    """The terms of the first training, with their noise; None if all edges are plain. An error if they cannot hold."""
    if terms is None:
        if graph.private:
            raise ConfigError(
                f"the graph has private edges (epsilon {graph.epsilon:g}): give --epsilon and --delta, too"
            )
        return None
    if graph.private and graph.epsilon != terms.epsilon:
        raise ConfigError(f"the graph's private edges have epsilon {graph.epsilon:g}, got {terms.epsilon:g}; give one")
    edges = graph.edges if terms.every else graph.private
    used = Counter(j for i, j in edges if sizes[i] and sizes[j])
    if not used:
        what = "joins two shards that hold samples" if edges else "is in the graph"
        hint = "" if terms.every else "; --private-edges makes all edges private"
        raise InputError(f"private edges need neighbours, and no such edge {what}: an empty neighbourhood{hint}")
    check_target(terms.epsilon, terms.delta, sizes.total())
    readers = max(used.values())
    terms = terms.settled(readers)
    require([terms.mechanism] * readers, terms.budget, terms.delta)
    return terms


def private_recipe(recipe: Recipe | None) -> Recipe:
    """The recipe, or a default one for private training; an error if adapters cannot be trained privately with it."""
    if recipe is None:
        return Recipe(name="private", adapter="linear", loss="bce", lr=1e-3)  # few parameters, so little noise
    if not recipe.has_adapters:
        raise ConfigError(
            "private edges need adapters to train, got adapter 'none': give --adapter linear, or leave out private "
            "edges (prototypes are exact sums, without noise)"
        )
    if recipe.loss != "bce":
        raise ConfigError(
            f"private edges need the loss 'bce', got {recipe.loss!r} (--loss bce): a softmax would tie an adapter to "
            "its neighbours' unprotected logits"
        )
    return recipe


def check_same_terms(config: Config, terms: PrivacyTerms | None) -> None:
    """Raise if the terms differ from those that the first training fixed; the budget may differ."""
    fixed = config.the_privacy()
    if terms is None or (fixed is not None and fixed.agrees(terms)):
        return
    found = "all edges as plain" if fixed is None else f"epsilon {fixed.epsilon:g} and delta {fixed.delta:g}"
    raise ConfigError(
        f"the first training fixed {found}, got other terms (epsilon {terms.epsilon:g}, delta {terms.delta:g}); "
        "leave them out, or make a new workspace"
    )


def with_budget(store: Store, config: Config, budget: Budget | None) -> Config:
    """The configuration with another budget; an error if what was charged so far exceeds it."""
    terms = config.the_privacy()
    if budget is None or (terms is not None and terms.budget == budget):
        return config
    if terms is None:
        raise ConfigError("a budget is for private edges, and the first training fixed all edges as plain")
    terms = replace(terms, budget=budget)
    found = worst_guarantee(Charges.load(store.catalogue), terms)
    if not found.within(budget):
        charged = f"(alpha, beta) = ({found.alpha:.4g}, {found.beta:.3g}) is charged already"
        raise ConfigError(f"the budget {budget} is too small: {charged} for {found.removed} removed samples")
    return replace(config, privacy=terms.to_json())


def check_releases(store: Store, config: Config, arriving: Iterable[str], *, rebuild: bool) -> None:
    """Raise if the releases of a training would leave no removal within the budget; called before anything is moved.

    arriving   the shards that get new samples; the groups that use them directly are rebuilt
    """
    terms = config.the_privacy()
    if terms is None:
        return
    sizes = shard_sizes(store) + Counter(arriving)
    if not sizes:
        return  # everything was forgotten: nothing is released
    check_target(terms.epsilon, terms.delta, sizes.total())
    graph = graph_over((f"shard:{shard}" for shard in sizes), config)
    built = inventory.built_groups(store.catalogue)
    changed = {group.name for group in graph.affected(set(arriving))}
    charges = Charges.load(store.catalogue)
    begun = {
        group.name: [shard for shard in group.private if sizes[shard]]
        for group in graph.groups()
        if (rebuild or group.name in changed or group.name not in built or group.name not in charges.numbers)
        and sizes[group.name]
    }
    reads = {name: shards for name, shards in begun.items() if shards}
    if not reads:
        return
    charges = charges.begun(reads, terms.mechanism)
    spent = [shard for shard, (_, first) in removals_left(charges, terms, charges.reads).items() if not first]
    if spent:
        why = f"after this training not one sample could leave {spent[0]!r} without retraining all that use it"
        raise WorkspaceError(SPENT.format(terms.budget, why))


def shard_sizes(store: Store) -> Counter[str]:
    """How many samples every shard holds."""
    labels = inventory.unit_labels(store.catalogue)
    return Counter({u.removeprefix("shard:"): sum(n.values()) for u, n in labels.items() if u.startswith("shard:")})


def begin_releases(store: Store, config: Config, groups: Sequence[Wanted]) -> bool:
    """Record the releases of groups with private edges before their training starts; whether there are any."""
    reads = {g.name: [unit.removeprefix("shard:") for unit in g.private] for g in groups if g.private}
    terms = config.the_privacy()
    if not reads or terms is None:
        return False
    for unit in sorted({unit for g in groups if g.private for unit in g.files}):
        store.read(unit)  # a damaged file is found here, before anything is released
    charges = Charges.load(store.catalogue).begun(reads, terms.mechanism)
    loss, method = worst_loss(charges, terms)
    detail = {"groups": len(reads), "epsilon": loss, "delta": terms.delta, "method": method}
    with store.catalogue.transaction() as transaction:
        charges.save(transaction)
        ledger.add_event(transaction, "released", detail)
    return True
