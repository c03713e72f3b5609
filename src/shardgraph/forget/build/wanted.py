"""What should be built, what is built and what is served: the one module that decides it.

A group's key is a digest of everything that its training depends on. A group is *built as wanted* if the catalogue
holds the wanted key; every other wanted group must be trained. Of the data that a group uses privately the key holds
only a random number, new for every build: such a group stays when a private neighbour changes.

The manifest names what is served. It is a small file, replaced atomically, and depends on the retained data alone. A
group that is wanted and not built (it was withdrawn, or training was interrupted) is listed as missing.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shardgraph.digest import canonical_json, digest
from shardgraph.errors import DamagedFile
from shardgraph.forget.config import Config
from shardgraph.graph import Group, ShardGraph
from shardgraph.learn.executors import GroupTask
from shardgraph.learn.inca import Adapters
from shardgraph.learn.numerics import Numerics, fingerprint_digest
from shardgraph.learn.prototypes import Prototypes
from shardgraph.storage.files import destroy_with_folder, read_digested, read_file, write_file
from shardgraph.storage.samples import unpack, unpack_strings
from shardgraph.storage.store import Store, shard_unit
from shardgraph.storage.tables import inventory

Labels = Mapping[str, Mapping[str, int]]
"""Unit -> label -> number of samples."""


# The groups that should be built


@dataclass(frozen=True)
class Wanted:
    """A wanted group: its key, its members' units, and other units that it uses directly or privately."""

    name: str
    key: str
    members: tuple[str, ...]
    others: tuple[str, ...]
    samples: int
    adapters: int
    private: tuple[str, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        """All units that the group learns from, private edges included."""
        return frozenset((*self.members, *self.others, *self.private))


def wanted_groups(
    store: Store,
    config: Config,
    numerics: Numerics,
    held: tuple[Labels, Mapping[str, str]] | None = None,
) -> dict[str, Wanted]:
    """Every group that has something to learn, with its key under these numerics; none if the recipe has no adapters.

    With `held`, the labels and digests of some units: the groups as if the workspace held nothing else.
    """
    if not config.the_recipe().has_adapters:
        return {}
    labels, digests = held or (inventory.unit_labels(store.catalogue), inventory.unit_digests(store.catalogue))
    base = digest(config.basis, fingerprint_digest(numerics))
    numbers = _build_numbers(store) if config.privacy else {}
    wanted = {}
    for group in graph_over(labels, config).groups():
        if not group_learns(group, labels):
            continue
        members = tuple(u for u in map(shard_unit, group.members) if u in labels)
        units = tuple(u for u in map(shard_unit, group.neighbourhood) if u in labels)
        private = tuple(u for u in map(shard_unit, group.private) if u in labels)
        others = tuple(u for u in units if u not in members)
        inputs = [part for unit in (*members, "", *others) for part in (unit, digests.get(unit, ""))]
        inputs += ["private", numbers.get(group.name, "")] if private else []
        count = sum(sum(labels[unit].values()) for unit in units)
        key = digest(base, group.name, *inputs)
        adapters = len(labels_in(group.members, labels))
        wanted[group.name] = Wanted(group.name, key, members, others, count, adapters, private)
    return wanted


def built_as_wanted(store: Store, wanted: Mapping[str, Wanted]) -> dict[str, inventory.Built]:
    """The groups whose row in the catalogue has the wanted key."""
    rows = inventory.built_groups(store.catalogue)
    return {name: row for name, row in rows.items() if name in wanted and row.key == wanted[name].key}


def missing_groups(store: Store, wanted: Mapping[str, Wanted]) -> list[Wanted]:
    """The wanted groups that must be trained: they are not built as wanted, or their file is missing."""
    built = built_as_wanted(store, wanted)
    return [group for name, group in wanted.items() if name not in built or not group_path(store.root, name).exists()]


def tasks_for(store: Store, config: Config, groups: Iterable[Wanted], output: Callable[[], str]) -> list[GroupTask]:
    """The tasks that build groups, each at a path that `output` returns."""
    digests, recipe, terms = (
        inventory.unit_digests(store.catalogue),
        config.the_recipe().to_json(),
        config.the_privacy(),
    )
    privacy = terms.recipe.to_json() if terms is not None else None

    def files(units: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return tuple((str(store.path(unit)), digests[unit]) for unit in units)

    def task(group: Wanted) -> GroupTask:
        units = (files(group.members), files(group.others))
        how = privacy if group.private else None
        return GroupTask(group.name, *units, recipe, config.seed, output(), files(group.private), how)

    return [task(group) for group in groups]


def graph_over(units: Iterable[str], config: Config) -> ShardGraph:
    """The shard graph, given the units that hold samples."""
    graph = config.the_topology().graph(u.removeprefix("shard:") for u in units if u.startswith("shard:"))
    terms = config.the_privacy()
    return graph.all_private(terms.epsilon) if terms is not None and terms.every else graph


def group_learns(group: Group, held: Labels) -> bool:
    """`can_learn`, for a group and the current units; if false, only prototypes predict its labels."""
    return can_learn(labels_in(group.members, held), labels_in(group.neighbourhood + group.private, held))


def can_learn(own: Collection[str], seen: Collection[str]) -> bool:
    """Whether a group has something to learn: it has labels of its own, and its neighbourhood has at least two."""
    return bool(own) and len(seen) > 1


def labels_in(shards: Iterable[str], held: Labels) -> set[str]:
    """The labels that occur in these shards."""
    return {label for unit in map(shard_unit, shards) for label in held.get(unit, ())}


def _build_numbers(store: Store) -> Mapping[str, str]:
    """The random number of the last build of every group that uses other shards privately."""
    from shardgraph.forget.privacy.charges import load_charges  # imported only if there are private edges

    return load_charges(store.catalogue).numbers


# The served model


@dataclass(frozen=True)
class Manifest:
    """The served model by name and digest."""

    model_digest: str = ""
    groups: dict[str, str] = field(default_factory=dict)
    prototypes: str = ""
    weight: float = 1.0
    classes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    fingerprint: dict[str, str] = field(default_factory=dict)

    def save(self, root: Path) -> None:
        """Replace manifest.json, and destroy the old one: it holds digests of what was erased."""
        write_file(root, root / "manifest.json", canonical_json(vars(self)) + b"\n")

    @classmethod
    def load(cls, root: Path) -> "Manifest":
        """The manifest of a workspace; an empty one before the first training."""
        path = root / "manifest.json"
        if not path.exists():
            return cls()
        try:
            value = json.loads(bytes(read_file(path)))
            return cls(**{**value, "classes": tuple(value["classes"]), "missing": tuple(value["missing"])})
        except (json.JSONDecodeError, TypeError, KeyError, UnicodeDecodeError) as error:
            raise DamagedFile(f"{path} is torn or was changed; `shardgraph train --rebuild` writes it again") from error


# The files of adapters and prototypes


def group_path(root: Path, name: str) -> Path:
    """The path of a group's adapters."""
    stem = digest("group", name)[:32]
    return root / f"models/{stem[:2]}/{stem}.safetensors"


def prototypes_path(root: Path) -> Path:
    """The path of the prototypes."""
    return root / "prototypes.safetensors"


def load_group(root: Path, name: str, expected: str) -> Adapters:
    """A group's adapters, checked against their digest."""
    return Adapters.from_bytes(read_built(group_path(root, name), expected))


def load_prototypes(root: Path, expected: str) -> Prototypes:
    """The prototypes, checked against their digest."""
    return Prototypes.from_bytes(read_built(prototypes_path(root), expected))


def load_classes(root: Path, expected: str) -> tuple[str, ...]:
    """The classes of the prototypes; the whole file is checked, and only the classes are parsed."""
    return unpack_strings("classes", unpack(read_built(prototypes_path(root), expected)))


def damaged_groups(root: Path, manifest: Manifest) -> list[str]:
    """The groups whose files are missing or not as the manifest names them; this reads all of them."""
    return [name for name, value in manifest.groups.items() if is_damaged(group_path(root, name), value)]


def is_damaged(path: Path, expected: str) -> bool:
    """Whether a file that was built is missing, or its bytes have another digest."""
    try:
        read_built(path, expected)
    except DamagedFile:
        return True
    return False


def destroy_group(root: Path, name: str) -> None:
    """Overwrite and unlink a group's adapters."""
    destroy_with_folder(group_path(root, name))


def read_built(path: Path, expected: str) -> memoryview:
    """The bytes of a file that was built, checked against their digest; an error names the command that mends it."""
    if not path.exists():
        raise DamagedFile(f"{path} is missing; `shardgraph train` builds it again")
    raw, value = read_digested(path)
    if value != expected:
        advice = "`shardgraph repair` builds it again, `shardgraph train --rebuild` everything"
        raise DamagedFile(f"{path} is torn or was changed; {advice}")
    return raw
