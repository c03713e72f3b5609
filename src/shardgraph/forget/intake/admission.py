"""Intake: which samples may come in, what the first training fixes, and where each sample belongs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardgraph.errors import ConfigError, DuplicateSample, ForgottenSample, InputError, some
from shardgraph.forget.config import Config
from shardgraph.forget.privacy.private_edges import check_same_terms, private_recipe, settled_terms
from shardgraph.forget.proof.keys import Secrets
from shardgraph.graph import Topology
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.files import check_room
from shardgraph.storage.samples import TEST, TRAIN, Samples, cast, check
from shardgraph.storage.store import Store, shard_unit, test_unit

Arriving = tuple[str, str, str, str]
"""(sample id, source, label, split)."""

Known = tuple[str, str, str, str, str]
"""(sample id, label, source, subject, split), as the catalogue has them."""


def admit(
    samples: Samples, store: Store, config: Config, secrets: Secrets, *, allow_return: bool
) -> tuple[Samples, int]:
    """The samples as they are stored, if all of them may come in, and how many come back after a forget."""
    tokens, features = cast(samples.tokens, config.dtype, "tokens"), cast(samples.features, "float32", "features")
    samples = check(replace(samples, tokens=tokens, features=features))
    dims = (samples.tokens.shape[1], samples.features.shape[1])
    if config.dims not in (None, dims):
        raise InputError(f"this workspace holds tokens and features of {config.dims} dimensions, got {dims}")
    rows = list(zip(samples.ids, samples.sources, samples.labels, samples.splits, strict=True))
    return samples, admit_rows(rows, store, config, secrets, allow_return=allow_return)


def here_already(samples: Iterable[Known], store: Store) -> set[str]:
    """The ids of those that are here with the same label, source, subject and split; an error if one has others.

    Their content is not compared: the catalogue does not know it, and raw data would have to be embedded again.
    """
    given = {sample: rest for sample, *rest in samples}
    found = store.catalogue.rows("id", sorted(given))
    if other := [row.id for row in found if [row.label, row.source, row.subject, row.split] != given[row.id]]:
        told = "here with another label, source, subject or split"
        raise DuplicateSample(f"{told}: {some(other)}; forget them first to replace them", other)
    return {row.id for row in found}


def new_samples(samples: Samples, store: Store) -> Samples:
    """Those of the samples that are not here already."""
    columns = (samples.ids, samples.labels, samples.sources, samples.subjects, samples.splits)
    here = here_already(zip(*columns, strict=True), store)
    return samples.take([i for i, sample in enumerate(samples.ids) if sample not in here]) if here else samples


def admit_rows(rows: Sequence[Arriving], store: Store, config: Config, secrets: Secrets, *, allow_return: bool) -> int:
    """How many of these samples come back after a forget; an error unless all of them may come in."""
    ids = [sample for sample, _, _, _ in rows]
    if twice := sorted(sample for sample, times in Counter(ids).items() if times > 1):
        raise DuplicateSample(f"ids must be unique, got {some(twice)} more than once", twice)
    if here := sorted(store.catalogue.known(ids)):
        advice = "forget them first to replace them, or pass over them with --only-new"
        raise DuplicateSample(f"already here: {some(here)}; {advice}", here)
    gone = [sample for sample in ids if _forgotten(store, secrets.mark("samples", sample))]
    if gone and not allow_return:
        raise ForgottenSample(f"forgotten before: {some(gone)}; --allow-return lets them come back", gone)
    train = [row for row in rows if row[3] == TRAIN]
    if config.trained and train:  # a sample that no shard takes would hold up every later training
        _shards(config, *(tuple(row[i] for row in train) for i in range(3)))
    return len(gone)


def fix(
    store: Store,
    config: Config,
    topology: Topology | None,
    recipe: Recipe | None,
    privacy: PrivacyTerms | None = None,
) -> Config:
    """The configuration with topology, recipe, class list and privacy, which the first training fixes for good."""
    if config.trained:
        check_same_terms(config, privacy)
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
    dims = config.dims
    if not labels or dims is None:
        raise InputError("there is nothing to train on: add samples whose split is train first")
    classes = tuple(sorted(labels)) if config.classes is None else config.classes
    config = replace(config, classes=classes, topology=topology.to_json())
    if privacy is not None or topology.graph(()).private:
        sizes = Counter(arriving_shards(store, config, first=True))
        terms = settled_terms(topology.graph(sizes), sizes, privacy)
        recipe = private_recipe(recipe)
        config = replace(config, privacy=terms.to_json() if terms else None)
    recipe = recipe or Recipe()
    recipe.head_count(dims[0])
    config = replace(config, recipe=recipe.to_json())
    store.unaim()  # of a first training that ended before its configuration was written
    aim(store, config, first=True)
    return config


def arriving_shards(store: Store, config: Config, *, first: bool = False) -> list[str]:
    """The shard that every training sample in the inbox belongs to."""
    waiting = "SELECT id, source, label FROM samples WHERE unit LIKE 'inbox:%' AND split = 'train'"
    rows = store.catalogue.all(waiting)
    return _shards(config, *([row[i] for row in rows] for i in range(3)), first=first)


def aim(store: Store, config: Config, *, first: bool = False) -> None:
    """Give every waiting sample its unit: a function of its own id, source and label."""
    waiting = "SELECT id, source, label, split FROM samples WHERE unit LIKE 'inbox:%' AND target IS NULL"
    rows = store.catalogue.all(waiting)
    if not rows:
        return
    train = [row for row in rows if row[3] == TRAIN]
    ids, sources, labels = ([row[i] for row in train] for i in range(3))
    shards = _shards(config, ids, sources, labels, first=first)
    targets = [(shard_unit(shard), sample) for sample, shard in zip(ids, shards, strict=True)]
    targets += [(test_unit(row[0], config.seed), row[0]) for row in rows if row[3] == TEST]
    _check_files(store, {unit for unit, _ in targets})
    store.aim(targets)


def _shards(
    config: Config, ids: Sequence[str], sources: Sequence[str], labels: Sequence[str], *, first: bool = False
) -> list[str]:
    """The shard of every sample; one that the graph does not have is an error before anything moves."""
    topology = config.the_topology()
    place = topology.place_first if first else topology.place_all
    shards = place(ids, sources, labels, seed=config.seed, classes=config.classes or ())
    topology.graph(set(shards))
    return shards


def _check_files(store: Store, targets: set[str]) -> None:
    """Raise before anything moves if a file that is to be moved or rewritten is damaged, or the disk has no room."""
    inbox = [unit for (unit,) in store.catalogue.all("SELECT DISTINCT unit FROM samples WHERE unit LIKE 'inbox:%'")]
    room = sum(sample.tokens.nbytes + sample.features.nbytes for sample in map(store.read, inbox))
    rewritten = [unit for unit in store.catalogue.unit_digests() if unit in targets]
    largest = max((store.read(unit).tokens.nbytes for unit in rewritten), default=0)
    check_room(store.root, room + 3 * largest + (1 << 20))


def _forgotten(store: Store, mark: str) -> bool:
    return store.catalogue.one("SELECT 1 FROM forgotten WHERE mark = ?", mark) is not None
