"""Intake: which samples may come in, what the first training fixes, and where each sample belongs."""

from dataclasses import replace

from shardgraph.data.samples import TEST, TRAIN, Samples, check
from shardgraph.data.store import Store, shard_unit, test_unit
from shardgraph.errors import ConfigError, DuplicateSample, ForgottenSample, InputError, some
from shardgraph.forget.config import Config
from shardgraph.forget.secrets import Secrets
from shardgraph.graph import Topology
from shardgraph.learn.recipe import Recipe


def admit(
    samples: Samples, store: Store, config: Config, secrets: Secrets, *, allow_return: bool
) -> tuple[Samples, int]:
    """The samples as they are stored, if all of them may come in, and how many come back after a forget."""
    samples = check(replace(samples, tokens=samples.tokens.astype(config.dtype, copy=False)))
    dims = (samples.tokens.shape[1], samples.features.shape[1])
    if config.dims not in (None, dims):
        raise InputError(f"this workspace holds tokens and features of {config.dims} dimensions, got {dims}")
    if here := sorted(store.catalogue.known(samples.ids)):
        raise DuplicateSample(f"already here: {some(here)}; forget them first to replace them", here)
    gone = [sample for sample in samples.ids if _forgotten(store, secrets.mark("samples", sample))]
    if gone and not allow_return:
        raise ForgottenSample(f"forgotten before: {some(gone)}; --allow-return lets them come back", gone)
    return samples, len(gone)


def fix(store: Store, config: Config, topology: Topology | None, recipe: Recipe | None) -> Config:
    """The configuration with topology, recipe and class list, which the first training fixes for good."""
    if config.trained:
        for name, given in (("topology", topology), ("recipe", recipe)):
            fixed = getattr(config, name)
            if given is not None and given.to_json() != fixed:
                raise ConfigError(
                    f"the first training fixed the {name} as {fixed}, got {given.to_json()}; "
                    "leave it out, or make a new workspace"
                )
        return config
    if topology is None:
        raise ConfigError("the first training needs a topology; give --coarse and --fine, or --topology")
    labels = [label for (label,) in store.catalogue.all("SELECT DISTINCT label FROM samples WHERE split = 'train'")]
    if not labels or config.dims is None:
        raise InputError("there is nothing to train on: add samples whose split is train first")
    recipe = recipe or Recipe()
    recipe.head_count(config.dims[0])
    classes = tuple(sorted(labels)) if config.classes is None else config.classes
    config = replace(config, classes=classes, topology=topology.to_json(), recipe=recipe.to_json())
    store.unaim()  # of a first training that ended before its configuration was written
    aim(store, config, first=True)
    return config


def aim(store: Store, config: Config, *, first: bool = False) -> None:
    """Give every waiting sample its unit: a function of its own id, source and label."""
    waiting = "SELECT id, source, label, split FROM samples WHERE unit LIKE 'inbox:%' AND target IS NULL"
    rows = store.catalogue.all(waiting)
    if not rows:
        return
    train = [row for row in rows if row[3] == TRAIN]
    ids, sources, labels = ([row[i] for row in train] for i in range(3))
    topology = config.the_topology()
    place = topology.place_first if first else topology.place_all
    shards = place(ids, sources, labels, seed=config.seed, classes=config.classes or ())
    topology.graph(set(shards))  # a shard that the graph does not have is an error before anything moves
    targets = [(shard_unit(shard), sample) for sample, shard in zip(ids, shards, strict=True)]
    targets += [(test_unit(row[0], config.seed), row[0]) for row in rows if row[3] == TEST]
    store.aim(targets)


def _forgotten(store: Store, mark: str) -> bool:
    return store.catalogue.one("SELECT 1 FROM forgotten WHERE mark = ?", mark) is not None
