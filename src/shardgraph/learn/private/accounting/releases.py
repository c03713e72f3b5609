"""Releases: what the private groups of a model have released, and what was removed since, as one value.

Immutable: every change gives a new value. To be stored in the transaction of the act itself: a build before its
training starts (a crash must not undercharge), a removal together with its request.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shardgraph.errors import InputError
from shardgraph.learn.private.accounting.mechanism import Mechanism

Builds = tuple[Mechanism, ...]


@dataclass(frozen=True)
class Removal:
    """`count` distinct samples are gone, which these groups had used privately and not been built anew since."""

    groups: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Releases:
    """Every group's builds that learned privately, oldest first, and the removals that are charged to them.

    A failed build counts: its noise was drawn, and it cannot be proved that no sum was seen.
    """

    builds: tuple[tuple[str, Builds], ...] = ()
    removals: tuple[Removal, ...] = field(default=())

    def begun(self, group: str, mechanism: Mechanism) -> "Releases":
        """The group's training begins again; until it is done, the old adapters and their charges remain."""
        builds = dict(self.builds)
        builds[group] = (*builds.get(group, ()), mechanism)
        return _tidy(builds, self.removals)

    def settled(self, groups: Collection[str]) -> "Releases":
        """The adapters of these groups are new, or no longer served: earlier removals do not concern them."""
        kept = (Removal(tuple(g for g in each.groups if g not in groups), each.count) for each in self.removals)
        return _tidy(dict(self.builds), kept)

    def built(self, group: str, mechanism: Mechanism) -> "Releases":
        """The group was trained again on the samples that remain."""
        return self.begun(group, mechanism).settled([group])

    def after_removal(self, groups: Iterable[str], count: int = 1) -> "Releases":
        """`count` distinct samples, which these groups had used privately, were removed."""
        names = tuple(sorted(set(groups)))
        if count < 0:
            raise InputError(f"the number of removed samples must be >= 0, got {count}")
        known = dict(self.builds)
        if unknown := [name for name in names if name not in known]:
            raise InputError(f"group {unknown[0]!r} has released nothing, so nothing can be charged to it")
        return _tidy(known, (*self.removals, Removal(names, count)))

    def of(self, groups: Iterable[str]) -> "Releases":
        """The part that concerns some groups: a clique, or one."""
        wanted = set(groups)
        builds = {name: builds for name, builds in self.builds if name in wanted}
        parts = (Removal(tuple(g for g in each.groups if g in wanted), each.count) for each in self.removals)
        return _tidy(builds, parts)

    def renamed(self, names: Mapping[str, str]) -> "Releases":
        """The same under other names."""
        builds = {names[group]: builds for group, builds in self.builds}
        return _tidy(builds, (Removal(tuple(names[g] for g in each.groups), each.count) for each in self.removals))

    def current(self) -> "Releases":
        """Only the last build of each group: what is visible without earlier models."""
        return Releases(tuple((name, builds[-1:]) for name, builds in self.builds), self.removals)

    def mechanisms(self, groups: Iterable[str] | None = None) -> Builds:
        """All builds of some groups, or of all."""
        wanted = None if groups is None else set(groups)
        return tuple(each for name, builds in self.builds if wanted is None or name in wanted for each in builds)

    def removed(self, group: str) -> int:
        """How many samples that the group's builds had used are gone."""
        return sum(each.count for each in self.removals if group in each.groups)

    def to_json(self) -> dict[str, Any]:
        """The value as plain dicts and lists."""
        return {
            "builds": {name: [asdict(each) for each in builds] for name, builds in self.builds},
            "removals": [{"groups": list(each.groups), "count": each.count} for each in self.removals],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Releases":
        """The value that `to_json` wrote."""
        builds = {name: tuple(Mechanism(**each) for each in builds) for name, builds in value["builds"].items()}
        return _tidy(builds, (Removal(tuple(each["groups"]), each["count"]) for each in value["removals"]))


def _tidy(builds: Mapping[str, Builds], removals: Iterable[Removal]) -> Releases:
    """The canonical form: sorted, removals of equal groups joined, empty ones dropped."""
    counts: dict[tuple[str, ...], int] = {}
    for each in removals:
        counts[each.groups] = counts.get(each.groups, 0) + each.count
    kept = tuple(Removal(groups, count) for groups, count in sorted(counts.items()) if groups and count)
    return Releases(tuple(sorted(builds.items())), kept)
