"""Build what is missing, destroy what is no longer wanted: the one act behind train, forget, repair and add.

The key of a group is a digest of all that its training is a function of. A key that stands in the catalogue
with its file is built; anything else is work. Like make, with digests instead of timestamps. Of what a group uses
privately the key holds nothing but a random number, new for every build: such a group stays when a neighbour changes.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from shardgraph.data.files import adopt, scratch_file, write_file
from shardgraph.data.store import Store, shard_unit
from shardgraph.digest import digest, digest_of_pieces
from shardgraph.errors import DamagedFile
from shardgraph.forget.charges import Book, worst_loss
from shardgraph.forget.config import Config
from shardgraph.forget.manifest import Manifest, destroy_group, group_path, load_classes, prototypes_path
from shardgraph.graph import ShardGraph
from shardgraph.learn.ensemble import mixing_weight, model_digest
from shardgraph.learn.executors import Executor, GroupResult, GroupTask
from shardgraph.learn.fingerprint import Numerics, fingerprint_digest
from shardgraph.learn.prototypes import Prototypes, total

SUBTRACTED = "subtracted"  # the key of prototypes of what is listed, while files are still to be rewritten
PROTOTYPES = "prototypes"  # their row among the built; group rows are prefixed, so no name can collide
Progress = Callable[[str, int, int], None]
Choose = Callable[[Sequence[GroupTask]], Executor]
Announce = Callable[[str], None]  # told a model's digest before the manifest names it


@dataclass(frozen=True)
class Wanted:
    """A group as it should be: its key, the units of its members, and the others that it uses directly or privately."""

    name: str
    key: str
    members: tuple[str, ...]
    others: tuple[str, ...]
    samples: int
    adapters: int
    private: tuple[str, ...] = ()


def graph_over(units: Iterable[str], config: Config) -> ShardGraph:
    """The shard graph, given the units that hold samples."""
    graph = config.the_topology().graph(u.removeprefix("shard:") for u in units if u.startswith("shard:"))
    terms = config.the_privacy()
    return graph.all_private(terms.epsilon) if terms is not None and terms.every else graph


def wanted_groups(
    store: Store,
    config: Config,
    numerics: Numerics,
    held: tuple[Mapping[str, Mapping[str, int]], Mapping[str, str]] | None = None,
) -> dict[str, Wanted]:
    """Every group that has something to learn, with its key under these numerics.

    With `held`, the labels and digests of some files, as if there were nothing else.
    """
    labels, digests = held or (store.catalogue.unit_labels(), store.catalogue.unit_digests())
    base = digest(config.basis, fingerprint_digest(numerics))
    numbers = Book.load(store.catalogue).numbers if config.privacy else {}
    wanted = {}
    for group in graph_over(labels, config).groups():
        members = tuple(u for u in map(shard_unit, group.members) if u in labels)
        units = tuple(u for u in map(shard_unit, group.neighbourhood) if u in labels)
        private = tuple(u for u in map(shard_unit, group.private) if u in labels)
        seen = {label for unit in units + private for label in labels[unit]}
        mine = {label for unit in members for label in labels[unit]}
        if not mine or len(seen) < 2:
            continue  # nothing to learn, or nothing to compare it with: prototypes answer
        others = tuple(u for u in units if u not in members)
        inputs = [part for unit in (*members, "", *others) for part in (unit, digests.get(unit, ""))]
        inputs += ["private", numbers.get(group.name, "")] if private else []
        count = sum(sum(labels[unit].values()) for unit in units)
        key = digest(base, group.name, *inputs)
        wanted[group.name] = Wanted(group.name, key, members, others, count, len(mine), private)
    return wanted


def missing_groups(store: Store, wanted: dict[str, Wanted]) -> list[Wanted]:
    """The groups whose adapters are not there, or were built from something else."""
    built = dict(store.catalogue.all("SELECT name, key FROM built"))
    return [
        group
        for group in wanted.values()
        if built.get(f"group:{group.name}") != group.key or not group_path(store.root, group.name).exists()
    ]


def build(
    store: Store,
    config: Config,
    numerics: Numerics,
    choose: Choose,
    progress: Progress = lambda what, done, of: None,
    announce: Announce = lambda model: None,
    classes: tuple[str, ...] | None = None,
) -> Manifest:
    """Make the built state match the wanted one, and publish it. Can be repeated and interrupted.

    Groups that are to be replaced leave the manifest before their files do, so that it never names what is gone.
    `classes` are those of the prototypes, where the caller has just written them.
    """
    wanted = wanted_groups(store, config, numerics)
    build_prototypes(store, config, progress, numerics)
    if not as_published(store, wanted):
        publish(store, config, wanted, numerics, announce, classes)
    drop_unwanted(store, wanted)
    missing = missing_groups(store, wanted)
    if begin_private(store, config, missing):
        wanted = wanted_groups(store, config, numerics)
        missing = missing_groups(store, wanted)
    tasks = tasks_for(store, config, missing, lambda: str(scratch_file(store.root)))
    outputs = {task.name: task.output for task in tasks}
    progress("training", 0, len(tasks))
    with closing(run_tasks(choose, tasks)) as results:  # an interruption ends the workers, too
        for done, result in enumerate(results, start=1):
            _record(store, result, wanted[result.name], outputs[result.name])
            progress("training", done, len(tasks))
    return publish(store, config, wanted, numerics, announce, classes)


def as_published(store: Store, wanted: dict[str, Wanted]) -> bool:
    """Whether all that the manifest names is there, and built as wanted; true before the first training."""
    try:
        manifest = Manifest.load(store.root)
    except DamagedFile:  # which `train --rebuild` mends
        return False
    rows = {name: (key, value) for name, key, value in store.catalogue.all("SELECT name, key, digest FROM built")}
    sums = rows.get(PROTOTYPES, ("", ""))[1]
    right = {f"group:{group.name}": group.key for group in wanted.values()}
    served = {f"group:{name}": value for name, value in manifest.groups.items()}
    kept = all(rows.get(name) == (right.get(name), value) for name, value in served.items())
    return not manifest.model_digest or (kept and manifest.prototypes == sums)


def begin_private(store: Store, config: Config, groups: Sequence[Wanted]) -> bool:
    """Enter the releases of groups with private edges before their training starts; whether there are any."""
    reads = {g.name: [unit.removeprefix("shard:") for unit in g.private] for g in groups if g.private}
    terms = config.the_privacy()
    if not reads or terms is None:
        return False
    for unit in sorted({unit for g in groups if g.private for unit in (*g.members, *g.others, *g.private)}):
        store.read(unit)  # a damaged one is found here, before anything is released
    book = Book.load(store.catalogue).begun(reads, terms.mechanism)
    loss, method = worst_loss(book, terms)
    detail = {"groups": len(reads), "epsilon": loss, "delta": terms.delta, "method": method}
    with store.catalogue.transaction() as db:
        book.save(db)
        store.catalogue.log(db, "released", detail)
    return True


def drop_unwanted(store: Store, wanted: dict[str, Wanted]) -> None:
    """Destroy the adapters of groups that should not be there."""
    for (row,) in store.catalogue.all("SELECT name FROM built WHERE name LIKE 'group:%'"):
        name = row.removeprefix("group:")
        if name not in wanted:
            destroy_group(store.root, name)
            with store.catalogue.transaction() as db:
                db.execute("DELETE FROM built WHERE name = ?", (row,))


def tasks_for(store: Store, config: Config, groups: Iterable[Wanted], output: Callable[[], str]) -> list[GroupTask]:
    """The tasks that build groups, each at a path that `output` gives."""
    digests, recipe, terms = store.catalogue.unit_digests(), config.the_recipe().to_json(), config.the_privacy()
    privacy = terms.recipe.to_json() if terms is not None else None

    def files(units: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return tuple((str(store.path(unit)), digests[unit]) for unit in units)

    def task(group: Wanted) -> GroupTask:
        units = (files(group.members), files(group.others))
        how = privacy if group.private else None
        return GroupTask(group.name, *units, recipe, config.seed, output(), files(group.private), how)

    return [task(group) for group in groups]


def prototypes_key(store: Store, config: Config) -> str:
    """The key of the prototypes: all training shards' digests."""
    digests = store.catalogue.unit_digests()
    return digest(config.digest, *(p for u in sorted(digests) if u.startswith("shard:") for p in (u, digests[u])))


def build_prototypes(
    store: Store, config: Config, progress: Progress = lambda what, done, of: None, numerics: Numerics | None = None
) -> None:
    """Sum the prototypes anew from the shards, unless they are built."""
    key = prototypes_key(store, config)
    built = store.catalogue.one("SELECT key FROM built WHERE name = ?", PROTOTYPES)
    if built is None or built[0] != key or not prototypes_path(store.root).exists():
        write_prototypes(store, sum_prototypes(store, config, progress, numerics), key)


def sum_prototypes(
    store: Store, config: Config, progress: Progress = lambda what, done, of: None, numerics: Numerics | None = None
) -> Prototypes:
    """The prototypes of all training shards, from their files; on the GPU where these are its numerics, bytes alike."""
    units = sorted(u for u in store.catalogue.unit_digests() if u.startswith("shard:"))

    def parts() -> Iterator:
        for done, unit in enumerate(units, start=1):
            yield store.read(unit)
            progress("prototypes", done, len(units))

    recipe = config.the_recipe()
    device = (numerics or {}).get("kind", "cpu")
    return total(parts(), second_order=recipe.second_order, expansion=recipe.expansion, device=device)


def write_prototypes(store: Store, prototypes: Prototypes, key: str, old: list[Path] | None = None) -> None:
    """Write the prototypes' file and its row; destroying the file before may be left to who reads `old`."""
    pieces = prototypes.pieces()
    with store.catalogue.transaction() as db:  # until the row follows the file, they are work to do
        db.execute("UPDATE built SET key = '' WHERE name = ?", (PROTOTYPES,))
    with ThreadPoolExecutor(1) as beside:  # hashing and writing take as long as each other
        value = beside.submit(digest_of_pieces, pieces)
        write_file(store.root, prototypes_path(store.root), *pieces, old=old)
    row = (PROTOTYPES, key, value.result(), int(prototypes.counts.sum()), 0)
    with store.catalogue.transaction() as db:
        db.execute("INSERT OR REPLACE INTO built VALUES (?, ?, ?, ?, ?)", row)


def confirm_prototypes(store: Store, config: Config) -> None:
    """Give prototypes that were had by subtraction the key of the files that are there now."""
    with store.catalogue.transaction() as db:
        db.execute("UPDATE built SET key = ? WHERE name = ?", (prototypes_key(store, config), PROTOTYPES))


def publish(
    store: Store,
    config: Config,
    wanted: dict[str, Wanted],
    numerics: Numerics,
    announce: Announce = lambda model: None,
    classes: tuple[str, ...] | None = None,
) -> Manifest:
    """Write the manifest of what is built as wanted, under the numerics it was built with, and return it.

    A group whose samples changed since (a training was interrupted) is not built as wanted, and missing. `classes` are
    those of the prototypes, where the caller has just written them.
    """
    rows = store.catalogue.all("SELECT name, key, digest, samples, adapters FROM built ORDER BY name")
    keys = {f"group:{group.name}": group.key for group in wanted.values()}
    built = [row for row in rows if keys.get(row[0]) == row[1]]
    groups = {name.removeprefix("group:"): d for name, _, d, _, _ in built}
    sums = next(d for name, _, d, _, _ in rows if name == PROTOTYPES)
    classes = load_classes(store.root, sums) if classes is None else classes
    sizes = [(samples, adapters) for _, _, _, samples, adapters in built]
    weight = mixing_weight(sizes, config.the_recipe())
    manifest = Manifest(
        model_digest=model_digest(groups, sums, classes, weight),
        groups=groups,
        prototypes=sums,
        weight=weight,
        classes=classes,
        missing=tuple(sorted(set(wanted) - set(groups))),
        fingerprint=numerics,
    )
    announce(manifest.model_digest)
    manifest.save(store.root)
    return manifest


def run_tasks(choose: Choose, tasks: Sequence[GroupTask]) -> Generator[GroupResult, None, None]:
    """The results of the tasks as they come; no executor is started for none."""
    if tasks:
        yield from choose(tasks).run(tasks)


def _record(store: Store, result: GroupResult, group: Wanted, output: str) -> None:
    """Put a trained group in its place; its row follows its file, so a crash between costs one training.

    What was charged to the adapters that it replaces goes with them, and not before.
    """
    adopt(store.root, Path(output), group_path(store.root, result.name))
    row = (f"group:{result.name}", group.key, result.digest, result.samples, result.adapters)
    book = Book.load(store.catalogue).settled([result.name]) if group.private else None
    with store.catalogue.transaction() as db:
        if book is not None:
            book.save(db)
        db.execute("INSERT OR REPLACE INTO built VALUES (?, ?, ?, ?, ?)", row)
