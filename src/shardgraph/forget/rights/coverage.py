"""Coverage: which part of a workspace a right covers, and how much that is. It only reads the catalogue.

The allowed part is treated as a workspace of its own: the groups that the allowed samples alone would give, with their
build keys. If a group has the same key in the whole workspace, it saw allowed samples only, and the right keeps it. The
other groups saw more and are left out; `provision` can train the groups that replace them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shardgraph.digest import digest
from shardgraph.forget.build.wanted import Wanted, wanted_groups
from shardgraph.forget.config import Config
from shardgraph.forget.rights.rights import Right
from shardgraph.learn.numerics import Numerics
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory


@dataclass(frozen=True)
class View:
    """The allowed part of the shards.

    labels    by unit: how many allowed samples have each label
    digests   by unit: the digest of the file; if only a part is allowed, a digest of that and of the allowed ids
    whole     the units in which every sample is allowed
    held      by unit: how many samples it holds, allowed or not
    classes   all classes, allowed or not
    """

    labels: Mapping[str, Mapping[str, int]]
    digests: Mapping[str, str]
    whole: frozenset[str]
    held: Mapping[str, int]
    classes: frozenset[str]

    @property
    def samples(self) -> int:
        """How many samples are allowed."""
        return sum(sum(labels.values()) for labels in self.labels.values())


@dataclass(frozen=True)
class Available:
    """The groups for a right: those of the workspace that it keeps, and those that `provision` would train."""

    view: View
    everything: Mapping[str, Wanted]  # the groups of the whole workspace
    kept: Mapping[str, Wanted]
    lacking: Mapping[str, Wanted]


@dataclass(frozen=True)
class Reach:
    """How much of a workspace a right covers; `x` of `of_x`."""

    samples: int
    of_samples: int
    shards: int  # in which every sample is allowed
    of_shards: int
    classes: int
    of_classes: int
    groups: int
    of_groups: int
    adapters: int
    of_adapters: int
    provisioned: int  # groups kept under the right
    lacking: int  # groups that provisioning would train
    to_revisit: int  # samples that it would read

    def to_json(self) -> dict[str, Any]:
        """The figures as a plain dict, with the shares."""
        pairs = ("samples", "shards", "classes", "groups", "adapters")
        shares = {f"share_of_{name}": _share(getattr(self, name), getattr(self, f"of_{name}")) for name in pairs}
        return asdict(self) | shares


def view(catalogue: Catalogue, right: Right) -> View:
    """The part of the shards that this right allows."""
    labels: dict[str, dict[str, int]] = {}
    held: dict[str, int] = {}
    classes, partial = set(), set()
    for unit, source, label, count in inventory.shard_contents(catalogue):
        held[unit] = held.get(unit, 0) + count
        classes.add(label)
        if right.allows(unit, source):
            mine = labels.setdefault(unit, {})
            mine[label] = mine.get(label, 0) + count
        else:
            partial.add(unit)
    digests = inventory.unit_digests(catalogue)
    seen = {unit: _part(catalogue, right, unit, digests[unit]) if unit in partial else digests[unit] for unit in labels}
    return View(labels, seen, frozenset(labels.keys() - partial), held, frozenset(classes))


def allowed_ids(catalogue: Catalogue, right: Right, unit: str) -> set[str]:
    """The samples of a unit that a right allows."""
    return {row.id for row in inventory.find_in_unit(catalogue, unit) if right.allows(unit, row.source)}


def available_groups(store: Store, config: Config, numerics: Numerics, right: Right) -> Available:
    """The groups that this right keeps, and those that provisioning would train; keys are under these numerics."""
    seen = view(store.catalogue, right)
    everything = wanted_groups(store, config, numerics)
    alone = wanted_groups(store, config, numerics, (seen.labels, seen.digests))
    kept = {
        name: group
        for name, group in alone.items()
        if name in everything and everything[name].key == group.key and everything[name].files <= seen.whole
    }
    # A group with private edges is never trained for a right: each training is a release, and uses up budget.
    lacking = {name: group for name, group in alone.items() if name not in kept and not group.private}
    return Available(seen, everything, kept, lacking)


def reach_of(found: Available, provisioned: int) -> Reach:
    """The figures of a right's groups, given how many are provisioned."""
    seen = found.view
    return Reach(
        samples=seen.samples,
        of_samples=sum(seen.held.values()),
        shards=len(seen.whole),
        of_shards=len(seen.held),
        classes=len({label for labels in seen.labels.values() for label in labels}),
        of_classes=len(seen.classes),
        groups=len(found.kept),
        of_groups=len(found.everything),
        adapters=sum(group.adapters for group in found.kept.values()),
        of_adapters=sum(group.adapters for group in found.everything.values()),
        provisioned=provisioned,
        lacking=len(found.lacking) - provisioned,
        to_revisit=sum(group.samples for group in found.lacking.values()),
    )


def _part(catalogue: Catalogue, right: Right, unit: str, whole: str) -> str:
    ids = sorted(allowed_ids(catalogue, right, unit), key=str.encode)
    return digest("part", whole, *ids)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
