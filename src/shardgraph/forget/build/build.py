"""Build what is missing and destroy what is no longer wanted; train, forget and repair all use this.

`wanted` decides what should be built. This works like make, with digests instead of timestamps: a group, or the
prototypes, is built if the catalogue holds its key and its file exists; everything else is built here. Every step can
be interrupted and repeated.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from shardgraph.digest import digest, digest_of_pieces
from shardgraph.errors import DamagedFile, VerificationError, some
from shardgraph.forget.build.wanted import (
    Manifest,
    Wanted,
    built_as_wanted,
    destroy_group,
    group_path,
    load_classes,
    missing_groups,
    prototypes_path,
    tasks_for,
    wanted_groups,
)
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.learn.executors import GroupResult, GroupTask
from shardgraph.learn.inca import model_digest
from shardgraph.learn.numerics import Numerics
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.learn.recipe import mixing_weight
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import adopt, scratch_file, write_file
from shardgraph.storage.samples import Samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory, ledger

_WRITE = "`shardgraph train` writes it again"
PUBLISHING = "publishing"
"""The ledger event of a model that the manifest is about to name."""

SUBTRACTED = "subtracted"
"""The key of prototypes that were computed by subtraction, until the files of samples are rewritten."""


def build(context: Context, classes: tuple[str, ...] | None = None) -> Manifest:
    """Build everything that is wanted and not built, publish it, then update the provisioned groups of rights.

    Groups that will be replaced are removed from the manifest before their files are, so that the manifest never names
    a file that does not exist. `classes` are those of the prototypes, if the caller has just written them.
    """
    store, config, numerics = context.store, context.config, context.numerics
    wanted = wanted_groups(store, config, numerics)
    build_prototypes(context)
    if not is_published(store, wanted):
        publish(context, wanted, numerics, classes)
    drop_unwanted(store, wanted)
    missing = missing_groups(store, wanted)
    if config.privacy is not None and _begin_releases(store, config, missing):
        wanted = wanted_groups(store, config, numerics)  # their keys hold new random numbers
        missing = missing_groups(store, wanted)
    tasks = tasks_for(store, config, missing, lambda: str(scratch_file(store.root)))
    outputs = {task.name: task.output for task in tasks}
    context.progress("training", 0, len(tasks))
    with closing(run_tasks(context, tasks)) as results:  # an interruption also ends the workers
        for done, result in enumerate(results, start=1):
            _keep(store, result, wanted[result.name], outputs[result.name])
            context.progress("training", done, len(tasks))
    manifest = publish(context, wanted, numerics, classes)
    if inventory.is_provisioning(store.catalogue):
        from shardgraph.forget.rights.provision import provision_all  # it imports this module

        provision_all(context)
    return manifest


def is_published(store: Store, wanted: Mapping[str, Wanted]) -> bool:
    """Whether everything that the manifest names is built as wanted; true before the first training."""
    try:
        manifest = Manifest.load(store.root)
    except DamagedFile:  # `train --rebuild` writes it again
        return False
    if not manifest.model_digest:
        return True
    built, sums = built_as_wanted(store, wanted), inventory.built_prototypes(store.catalogue)
    kept = all(name in built and built[name].digest == value for name, value in manifest.groups.items())
    return kept and manifest.prototypes == (sums.digest if sums else "")


def publish(
    context: Context, wanted: Mapping[str, Wanted], numerics: Numerics, classes: tuple[str, ...] | None = None
) -> Manifest:
    """Write the manifest of what is built as wanted, under the numerics it was built with, and return it.

    A group whose samples changed since it was built (a training was interrupted) is listed as missing.
    """
    store = context.store
    built, sums = built_as_wanted(store, wanted), inventory.built_prototypes(store.catalogue)
    assert sums is not None
    groups = {name: built[name].digest for name in sorted(built)}
    classes = load_classes(store.root, sums.digest) if classes is None else classes
    sizes = [(built[name].samples, built[name].adapters) for name in sorted(built)]
    weight = mixing_weight(sizes, context.config.the_recipe())
    manifest = Manifest(
        model_digest=model_digest(groups, sums.digest, classes, weight),
        groups=groups,
        prototypes=sums.digest,
        weight=weight,
        classes=classes,
        missing=tuple(sorted(set(wanted) - set(groups))),
        fingerprint=numerics,
    )
    _announce(context, manifest.model_digest)
    manifest.save(store.root)
    return manifest


def publishable_models(catalogue: Catalogue) -> list[str]:
    """The marks of the models that the manifest may name: the last; if that is only announced, also the one before."""
    found = ledger.last_models(catalogue, 2)
    possible = found if found and found[0][0] == PUBLISHING else found[:1]
    return [model for _, model in possible]


def check_manifest(context: Context) -> Manifest:
    """The manifest; an error unless it names what the catalogue lists as built, and the model recorded last."""
    manifest = Manifest.load(context.root)
    if not manifest.model_digest:
        if ledger.has_event(context.catalogue, "trained"):
            raise VerificationError(f"manifest.json names no model, the ledger does; {_WRITE}")
        return manifest
    wanted = wanted_groups(context.store, context.config, manifest.fingerprint)
    built, current = inventory.built_groups(context.catalogue), built_as_wanted(context.store, wanted)
    if odd := [name for name, found in manifest.groups.items() if name not in built or built[name].digest != found]:
        raise VerificationError(
            f"manifest.json names groups that the catalogue lists otherwise: {some(sorted(odd))}; {_WRITE}"
        )
    if odd := sorted(set(manifest.missing) - (set(wanted) - set(manifest.groups))):
        raise VerificationError(f"manifest.json says that groups are missing which are not: {some(odd)}; {_WRITE}")
    sums = inventory.built_prototypes(context.catalogue)
    if sums is None or sums.digest != manifest.prototypes:
        raise VerificationError(f"manifest.json names other prototypes than the catalogue; {_WRITE}")
    under_way = sums.key != prototypes_key(context.store, context.config)  # samples were placed, nothing is built yet
    under_way |= not all(built[name].key for name in manifest.groups)  # a rebuild was interrupted
    if manifest.groups and not under_way and not current:
        raise VerificationError(
            f"manifest.json names other numerics than those that its groups were built with; {_WRITE}"
        )
    found = model_digest(manifest.groups, manifest.prototypes, manifest.classes, manifest.weight)
    if found != manifest.model_digest:
        raise VerificationError(f"model_digest should be {found}, the manifest says {manifest.model_digest}")
    possible = publishable_models(context.catalogue)
    if possible and context.keys.mark(found) not in possible:
        raise VerificationError("the model is not the one that the ledger recorded last")
    return manifest


def drop_unwanted(store: Store, wanted: Mapping[str, Wanted]) -> None:
    """Destroy the adapters of groups that are built and not wanted."""
    for name in inventory.built_groups(store.catalogue):
        if name not in wanted:
            destroy_group(store.root, name)
            with store.catalogue.transaction() as transaction:
                inventory.remove_groups(transaction, [name])


def _announce(context: Context, model: str) -> None:
    """Record which model is about to be published, so that after a crash every published model has an event."""
    mark = context.keys.mark(model)
    if [found for _, found in ledger.last_models(context.catalogue, 1)] != [mark]:
        context.record_event(PUBLISHING, {"model": mark})


def _begin_releases(store: Store, config: Config, groups: list[Wanted]) -> bool:
    from shardgraph.forget.privacy.private_edges import begin_releases  # imported only if there are private edges

    return begin_releases(store, config, groups)


def run_tasks(context: Context, tasks: Sequence[GroupTask]) -> Generator[GroupResult, None, None]:
    """The results of the tasks, as they finish; without tasks no executor is started."""
    if tasks:
        yield from context.choose_executor(tasks).run(tasks)


# Prototypes


def prototypes_key(store: Store, config: Config) -> str:
    """The key of the prototypes: the digests of all training shards."""
    digests = inventory.unit_digests(store.catalogue)
    return digest(config.digest, *(p for u in sorted(digests) if u.startswith("shard:") for p in (u, digests[u])))


def build_prototypes(context: Context) -> None:
    """Sum the prototypes from the shards, unless they are built."""
    store = context.store
    key, built = prototypes_key(store, context.config), inventory.built_prototypes(store.catalogue)
    if built is None or built.key != key or not prototypes_path(store.root).exists():
        write_prototypes(store, sum_prototypes(context), key)


def sum_prototypes(context: Context) -> Prototypes:
    """The prototypes of all training shards, from their files; on the GPU if its numerics are used (equal bytes)."""
    store, recipe = context.store, context.config.the_recipe()
    units = sorted(u for u in inventory.unit_digests(store.catalogue) if u.startswith("shard:"))

    def parts() -> Iterator[Samples]:
        for done, unit in enumerate(units, start=1):
            yield store.read(unit)
            context.progress("prototypes", done, len(units))

    device = context.numerics.get("kind", "cpu")
    return total(parts(), second_order=recipe.second_order, expansion=recipe.expansion, device=device)


def write_prototypes(store: Store, prototypes: Prototypes, key: str, old: list[Path] | None = None) -> None:
    """Write the prototypes' file and its row; with `old`, the caller destroys the replaced file."""
    pieces = prototypes.pieces()
    with store.catalogue.transaction() as transaction:  # until the new row is written, they count as not built
        inventory.set_prototypes_key(transaction, "")
    with ThreadPoolExecutor(1) as thread:  # hashing takes as long as writing
        value = thread.submit(digest_of_pieces, pieces)
        write_file(store.root, prototypes_path(store.root), *pieces, old=old)
    with store.catalogue.transaction() as transaction:
        row = inventory.Built(key, value.result(), int(prototypes.counts.sum()), 0)
        inventory.record_prototypes(transaction, row)


def confirm_prototypes(store: Store, config: Config) -> None:
    """Give prototypes that were computed by subtraction the key of the current files of samples."""
    with store.catalogue.transaction() as transaction:
        inventory.set_prototypes_key(transaction, prototypes_key(store, config))


def _keep(store: Store, result: GroupResult, group: Wanted, output: str) -> None:
    """Move a trained group into place, then write its row; a crash in between costs one training.

    The charges of the adapters that it replaces are removed in the same transaction, not earlier.
    """
    adopt(store.root, Path(output), group_path(store.root, result.name))
    row = inventory.Built(group.key, result.digest, result.samples, result.adapters)
    with store.catalogue.transaction() as transaction:
        if group.private:
            from shardgraph.forget.privacy.charges import settle_group

            settle_group(store.catalogue, transaction, result.name)
        inventory.record_group(transaction, result.name, row)
