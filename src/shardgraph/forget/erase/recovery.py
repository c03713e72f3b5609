"""Recovery: code that writes takes the lock and first finishes what an interrupted process left.

All state of an interrupted operation is in the catalogue and on disk: samples that are being moved into their shards,
erasures that were accepted and not finished, a manifest that does not match what is built, deleted names whose copies
have not been removed from the catalogue's file yet, files without a row in the catalogue.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shardgraph.errors import DamagedFile, WorkspaceBusy
from shardgraph.forget.build.build import build_prototypes, publish
from shardgraph.forget.build.wanted import Manifest, wanted_groups
from shardgraph.forget.context import Context
from shardgraph.forget.erase import execute
from shardgraph.forget.proof.certificate import Certificate
from shardgraph.forget.queue import queue
from shardgraph.forget.rights.provision import FOLDER as PROVISIONED
from shardgraph.forget.rights.provision import destroy_strays, strays
from shardgraph.storage.files import sweep
from shardgraph.storage.tables import erasures, inventory

STAGED = "staged.json"  # holds the URL of copies of shard files in object storage


@contextmanager
def writing(context: Context, *, honour: bool = True) -> Iterator[None]:
    """Hold the write lock, after recovery; reentrant within one context.

    Requests of the erasure log that a restored workspace lacks are carried out first, unless `honour` is False.
    """
    nested = context.lock.held
    with context.lock:
        if not nested:
            context.reload_config()
            context.check_identity()
            recover(context)
            hash_contents(context)
            if honour and context.keeps_log:
                from shardgraph.forget.queue.request_queue import RequestQueue

                RequestQueue(context).honour_log()
        yield


def hash_contents(context: Context) -> None:
    """Hash what samples hold that an earlier version added; those in damaged files are left for the next time."""
    for unit in inventory.unhashed_units(context.catalogue):
        with suppress(DamagedFile):
            samples = context.store.read(unit)
            contents = dict(zip(samples.ids, context.keys.contents(samples), strict=True))
            with context.catalogue.transaction() as transaction:
                inventory.set_contents(transaction, contents)


def resume(context: Context) -> list[Certificate]:
    """Finish the placement and the erasures that a crash interrupted; does nothing while another process writes."""
    moving = context.config.trained and inventory.is_placing(context.catalogue)
    unfinished = erasures.erasures_under_way(context.catalogue) or is_torn(context)
    if not (moving or unfinished or context.catalogue.dirty or _has_strays(context)):
        return []
    try:
        with context.lock:
            return recover(context)
    except WorkspaceBusy:
        return []


def _has_strays(context: Context) -> bool:
    return (context.root / PROVISIONED).is_dir() and bool(strays(context.store))


def recover(context: Context) -> list[Certificate]:
    """Finish everything that was interrupted, and return the certificates of finished erasures. Needs the lock."""
    store, catalogue = context.store, context.catalogue
    context.numerics  # noqa: B018  a device that cannot be used is an error before anything changes
    if (context.root / PROVISIONED).is_dir():
        destroy_strays(store)
    sweep(context.root)
    if (context.root / STAGED).exists():
        from shardgraph.cluster.staging import sweep_staged

        sweep_staged(context.root)
    if context.config.trained:
        store.place()  # otherwise a sample could be erased from the inbox while its copy in a shard stays
    else:
        store.drop_empty_inbox()
        store.take_back_targets()  # a first training was interrupted before it placed samples
    context.drop_written()
    unfinished = erasures.erasures_under_way(catalogue)
    if unfinished:
        context.drop_models()
    finished = [execute.finish(context, number, recovering=True) for number in unfinished]
    if context.config.trained:
        mend_manifest(context)
    if catalogue.dirty:
        catalogue.scrub()
    if erasures.any_closed_request(catalogue):
        queue.settle(catalogue)
    return finished


def mend_manifest(context: Context) -> None:
    """Publish what is built, if an interrupted training left a manifest that does not match it."""
    with suppress(DamagedFile):  # `train --rebuild` writes it again
        if not is_torn(context):
            return
        build_prototypes(context)
        numerics = Manifest.load(context.root).fingerprint or context.numerics
        if is_torn(context):
            publish(context, wanted_groups(context.store, context.config, numerics), numerics)


def is_torn(context: Context) -> bool:
    """Whether the manifest names other prototypes than those on disk, or their writing was interrupted."""
    row = inventory.built_prototypes(context.catalogue)
    with suppress(DamagedFile):
        named = Manifest.load(context.root).prototypes
        return bool(named and row and (not row.key or row.digest != named))
    return False
