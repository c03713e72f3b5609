"""Provisioning: groups that are trained only on the data that a right allows, and kept for that right.

A group is trained as if the workspace held the allowed samples alone, with its own name and seed, so its bytes are
those of such a workspace. The name of its file depends on the consumer and the build key; a row of the catalogue
records it. The rows decide: a file without a row is destroyed, and a row whose key is not wanted is not served.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from shardgraph.digest import digest
from shardgraph.errors import DamagedFile
from shardgraph.forget.build.build import run_tasks
from shardgraph.forget.build.wanted import Wanted, read_built, tasks_for
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.rights.coverage import Available, allowed_ids, available_groups
from shardgraph.forget.rights.rights import Right, rights_by_consumer
from shardgraph.learn.executors import GroupTask
from shardgraph.learn.inca import Adapters
from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.files import adopt, destroy, destroy_with_folder, scratch_file
from shardgraph.storage.samples import Samples, pack_samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import parties
from shardgraph.storage.tables.parties import ProvisionedGroup

FOLDER = "rights"


@dataclass(frozen=True)
class Provisioned:
    """A group that is kept for a right."""

    consumer: str
    name: str
    key: str
    digest: str
    units: tuple[str, ...]  # the units that it learned from

    def path(self, root: Path) -> Path:
        """The path of its adapters."""
        return provisioned_path(root, self.consumer, self.key)

    def load(self, root: Path) -> Adapters:
        """Its adapters, checked against their digest."""
        return Adapters.from_bytes(read_built(self.path(root), self.digest))


def provisioned_path(root: Path, consumer: str, key: str) -> Path:
    """The path of the adapters with this build key, for this consumer."""
    return root / FOLDER / digest("right", consumer)[:32] / f"{digest('provisioned', key)[:32]}.safetensors"


def provisioned_groups(catalogue: Catalogue, consumer: str | None = None) -> list[Provisioned]:
    """The groups that are kept for the right of a consumer, or for all rights."""
    found = parties.provisioned_groups(catalogue, consumer)
    return [Provisioned(row.consumer, row.name, row.key, row.digest, row.units) for row in found]


def provision(context: Context, right: Right) -> int:
    """Train the groups that this right lacks, and destroy those that it may not keep; returns how many were trained."""
    store, config, progress = context.store, context.config, context.progress
    found = available_groups(store, config, context.numerics, right)
    withdraw_stale(store, right.consumer, found.lacking)
    here = [group for group in provisioned_groups(store.catalogue, right.consumer) if group.path(store.root).exists()]
    missing = [group for name, group in found.lacking.items() if name not in {group.name for group in here}]
    progress("provisioning", 0, len(missing))
    with training(store, config, right, found, missing) as tasks, closing(run_tasks(context, tasks)) as results:
        outputs = {task.name: task.output for task in tasks}
        for done, result in enumerate(results, start=1):
            group = found.lacking[result.name]
            adopt(store.root, Path(outputs[result.name]), provisioned_path(store.root, right.consumer, group.key))
            units = (*group.members, *group.others)
            with store.catalogue.transaction() as transaction:
                parties.record_provisioned(
                    transaction,
                    ProvisionedGroup(
                        right.consumer, group.name, group.key, result.digest, result.samples, result.adapters, units
                    ),
                )
            progress("provisioning", done, len(missing))
    return len(missing)


def provision_all(context: Context) -> int:
    """Update the groups of every provisioned right; returns how many were trained."""
    rights = [right for right in rights_by_consumer(context.catalogue).values() if right.provision]
    return sum(provision(context, right) for right in rights)


@contextmanager
def training(
    store: Store, config: Config, right: Right, found: Available, groups: Iterable[Wanted]
) -> Iterator[list[GroupTask]]:
    """Tasks that train groups on the allowed samples alone; each writes to a path in the scratch folder.

    If only a part of a unit is allowed, the allowed samples are copied to the scratch folder and destroyed at the end.
    """
    groups = list(groups)
    units = {unit for group in groups for unit in (*group.members, *group.others)} - found.view.whole
    parts: dict[str, tuple[str, str]] = {}
    try:
        for unit in sorted(units):
            path = scratch_file(store.root)
            parts[str(store.path(unit))] = (str(path), "")
            raw = pack_samples(allowed_samples(store, unit, allowed_ids(store.catalogue, right, unit)))
            path.write_bytes(raw)
            parts[str(store.path(unit))] = (str(path), digest(raw))
        tasks = tasks_for(store, config, groups, lambda: str(scratch_file(store.root)))
        yield [
            replace(
                task,
                members=tuple(parts.get(path, (path, value)) for path, value in task.members),
                others=tuple(parts.get(path, (path, value)) for path, value in task.others),
            )
            for task in tasks
        ]
    finally:
        for copy, _ in parts.values():
            destroy(Path(copy))


def allowed_samples(store: Store, unit: str, ids: set[str]) -> Samples:
    """These samples of a unit; an error if its file does not hold all of them."""
    samples = store.read(unit)
    rows = [i for i, sample in enumerate(samples.ids) if sample in ids]
    if len(rows) != len(ids):
        raise DamagedFile(f"{unit} must hold {len(ids)} samples of a right, its file has {len(rows)} of them")
    return samples if len(rows) == len(samples) else samples.take(rows)


def withdraw_stale(store: Store, consumer: str, wanted: Mapping[str, Wanted]) -> None:
    """Remove the groups that a right may not keep, and destroy their files."""
    with store.catalogue.transaction() as transaction:
        keep_only(transaction, consumer, wanted)
    destroy_strays(store)


def keep_only(transaction: Transaction, consumer: str, wanted: Mapping[str, Wanted]) -> None:
    """Delete the rows of a right's groups that are not wanted, or have another key."""
    parties.keep_provisioned(transaction, consumer, {name: group.key for name, group in wanted.items()})


def strays(store: Store) -> list[Path]:
    """Files of provisioned groups without a row, and empty folders, which an interrupted process left."""
    known = {group.path(store.root) for group in provisioned_groups(store.catalogue)}
    empty = {folder for folder in (store.root / FOLDER).glob("*") if not any(folder.iterdir())}
    return sorted((set((store.root / FOLDER).glob("*/*")) - known) | empty)


def destroy_strays(store: Store) -> None:
    """Overwrite and unlink files without a row, and remove empty folders."""
    for path in strays(store):
        path.rmdir() if path.is_dir() else destroy_with_folder(path)
    with suppress(OSError):
        (store.root / FOLDER).rmdir()


def check_provisioned(store: Store) -> int:
    """The number of provisioned groups; an error unless their files are as recorded, and there are no others."""
    groups = provisioned_groups(store.catalogue)
    for group in groups:
        group.load(store.root)
    if left := strays(store):
        raise DamagedFile(f"{left[0]} belongs to no right; any command that writes destroys it")
    return len(groups)


def find_different(context: Context, right: Right) -> tuple[int, list[str]]:
    """Train a right's groups in scratch files and compare; returns their number, and the names of those that differ."""
    store, config = context.store, context.config
    found = available_groups(store, config, context.numerics, right)
    kept = {group.name: group for group in provisioned_groups(store.catalogue, right.consumer)}
    wrong = [name for name, group in kept.items() if name not in found.lacking or found.lacking[name].key != group.key]
    again = [found.lacking[name] for name in sorted(kept) if name not in wrong]
    with training(store, config, right, found, again) as tasks, closing(run_tasks(context, tasks)) as results:
        outputs = {task.name: Path(task.output) for task in tasks}
        for result in results:
            destroy(outputs[result.name])  # it learned from samples that may be forgotten later
            wrong += [result.name] if result.digest != kept[result.name].digest else []
    return len(kept), sorted(wrong)
