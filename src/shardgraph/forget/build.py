"""Build what is missing, destroy what is no longer wanted: the one act behind train, forget, repair and add.

The key of a group is a digest of all that its training is a function of. A key that stands in the catalogue
with its file is built; anything else is work. Like make, with digests instead of timestamps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardgraph.data.files import adopt, scratch_path, write_file
from shardgraph.data.store import Store, shard_unit
from shardgraph.digest import digest
from shardgraph.forget.config import Config
from shardgraph.forget.manifest import Manifest, destroy_group, group_path, load_prototypes, prototypes_path
from shardgraph.graph import ShardGraph
from shardgraph.learn.ensemble import mixing_weight, model_digest
from shardgraph.learn.executors import Executor, GroupResult, GroupTask
from shardgraph.learn.fingerprint import fingerprint, fingerprint_digest
from shardgraph.learn.group import ALGORITHM
from shardgraph.learn.prototypes import Prototypes, total

PROTOTYPES = "prototypes"  # their row among the built; group rows are prefixed, so no name can collide
Progress = Callable[[str, int, int], None]
Choose = Callable[[Sequence[GroupTask]], Executor]


@dataclass(frozen=True)
class Wanted:
    """A group as it should be: its key, and the units of its members and of its whole neighbourhood."""

    name: str
    key: str
    members: tuple[str, ...]
    others: tuple[str, ...]
    samples: int
    adapters: int


def current_graph(store: Store, config: Config) -> ShardGraph:
    """The shard graph, given the shards that hold samples."""
    present = [unit.removeprefix("shard:") for unit in store.catalogue.unit_labels() if unit.startswith("shard:")]
    return config.the_topology().graph(present)


def wanted_groups(store: Store, config: Config) -> dict[str, Wanted]:
    """Every group that has something to learn, with its key."""
    labels, digests = store.catalogue.unit_labels(), store.catalogue.unit_digests()
    base = digest(config.digest, fingerprint_digest(fingerprint()), ALGORITHM)
    wanted = {}
    for group in current_graph(store, config).groups():
        members = tuple(u for u in map(shard_unit, group.members) if u in labels)
        units = tuple(u for u in map(shard_unit, group.neighbourhood) if u in labels)
        seen = {label for unit in units for label in labels[unit]}
        mine = {label for unit in members for label in labels[unit]}
        if not mine or len(seen) < 2:
            continue  # nothing to learn, or nothing to compare it with: prototypes answer
        others = tuple(u for u in units if u not in members)
        inputs = [part for unit in (*members, "", *others) for part in (unit, digests.get(unit, ""))]
        count = sum(sum(labels[unit].values()) for unit in units)
        wanted[group.name] = Wanted(group.name, digest(base, group.name, *inputs), members, others, count, len(mine))
    return wanted


def missing_groups(store: Store, wanted: dict[str, Wanted]) -> list[Wanted]:
    """The groups whose adapters are not there, or were built from something else."""
    built = dict(store.catalogue.all("SELECT name, key FROM built"))
    return [
        group
        for group in wanted.values()
        if built.get(f"group:{group.name}") != group.key or not group_path(store.root, group.name).exists()
    ]


def build(store: Store, config: Config, choose: Choose, progress: Progress = lambda what, done, of: None) -> Manifest:
    """Make the built state match the wanted one, and publish it. Can be repeated and interrupted."""
    wanted = wanted_groups(store, config)
    drop_unwanted(store, wanted)
    tasks = [task_for(store, config, group, str(scratch_path(store.root))) for group in missing_groups(store, wanted)]
    outputs = {task.name: task.output for task in tasks}
    progress("training", 0, len(tasks))
    for done, result in enumerate(_run(choose, tasks), start=1):
        _record(store, result, wanted[result.name].key, outputs[result.name])
        progress("training", done, len(tasks))
    build_prototypes(store, config, progress)
    return publish(store, config, wanted, dict(fingerprint()))


def drop_unwanted(store: Store, wanted: dict[str, Wanted]) -> None:
    """Destroy the adapters of groups that should not be there."""
    for (row,) in store.catalogue.all("SELECT name FROM built WHERE name LIKE 'group:%'"):
        name = row.removeprefix("group:")
        if name not in wanted:
            destroy_group(store.root, name)
            with store.catalogue.transaction() as db:
                db.execute("DELETE FROM built WHERE name = ?", (row,))


def task_for(store: Store, config: Config, wanted: Wanted, output: str) -> GroupTask:
    """The task that builds a group at `output`."""
    digests = store.catalogue.unit_digests()

    def files(units: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return tuple((str(store.path(unit)), digests[unit]) for unit in units)

    recipe = config.the_recipe().to_json()
    return GroupTask(wanted.name, files(wanted.members), files(wanted.others), recipe, config.seed, output)


def prototypes_key(store: Store, config: Config) -> str:
    """The key of the prototypes: all training shards' digests."""
    digests = store.catalogue.unit_digests()
    return digest(config.digest, *(p for u in sorted(digests) if u.startswith("shard:") for p in (u, digests[u])))


def build_prototypes(store: Store, config: Config, progress: Progress = lambda what, done, of: None) -> None:
    """Sum the prototypes anew from the shards, unless they are built."""
    key = prototypes_key(store, config)
    built = store.catalogue.one("SELECT key FROM built WHERE name = ?", PROTOTYPES)
    if built is None or built[0] != key or not prototypes_path(store.root).exists():
        write_prototypes(store, sum_prototypes(store, progress), key)


def sum_prototypes(store: Store, progress: Progress = lambda what, done, of: None) -> Prototypes:
    """The prototypes of all training shards, from their files."""
    units = sorted(u for u in store.catalogue.unit_digests() if u.startswith("shard:"))

    def parts() -> Iterator:
        for done, unit in enumerate(units, start=1):
            yield store.read(unit)
            progress("prototypes", done, len(units))

    return total(parts())


def write_prototypes(store: Store, prototypes: Prototypes, key: str) -> None:
    """Write the prototypes' file and its row."""
    raw = prototypes.to_bytes()
    write_file(store.root, prototypes_path(store.root), raw)
    row = (PROTOTYPES, key, digest(raw), int(prototypes.counts.sum()), 0)
    with store.catalogue.transaction() as db:
        db.execute("INSERT OR REPLACE INTO built VALUES (?, ?, ?, ?, ?)", row)


def confirm_prototypes(store: Store, config: Config) -> None:
    """Give prototypes that were had by subtraction the key of the files that are there now."""
    with store.catalogue.transaction() as db:
        db.execute("UPDATE built SET key = ? WHERE name = ?", (prototypes_key(store, config), PROTOTYPES))


def publish(store: Store, config: Config, wanted: dict[str, Wanted], numerics: dict[str, str]) -> Manifest:
    """Write the manifest of what is built now, under the numerics it was built with, and return it."""
    rows = store.catalogue.all("SELECT name, digest, samples, adapters FROM built ORDER BY name")
    groups = {name.removeprefix("group:"): d for name, d, _, _ in rows if name != PROTOTYPES}
    sums = next(d for name, d, _, _ in rows if name == PROTOTYPES)
    classes = load_prototypes(store.root, sums).classes
    sizes = [(samples, adapters) for name, _, samples, adapters in rows if name != PROTOTYPES]
    weight = mixing_weight(sizes, config.the_recipe().prototypes)
    manifest = Manifest(
        model_digest=model_digest(groups, sums, classes, weight),
        groups=groups,
        prototypes=sums,
        weight=weight,
        classes=classes,
        missing=tuple(sorted(set(wanted) - set(groups))),
        fingerprint=numerics,
    )
    manifest.save(store.root)
    return manifest


def _run(choose: Choose, tasks: list[GroupTask]) -> Iterator[GroupResult]:
    return choose(tasks).run(tasks) if tasks else iter(())


def _record(store: Store, result: GroupResult, key: str, output: str) -> None:
    """Put a trained group in its place; its row follows its file, so a crash between costs one training."""
    adopt(store.root, Path(output), group_path(store.root, result.name))
    row = (f"group:{result.name}", key, result.digest, result.samples, result.adapters)
    with store.catalogue.transaction() as db:
        db.execute("INSERT OR REPLACE INTO built VALUES (?, ?, ?, ?, ?)", row)
