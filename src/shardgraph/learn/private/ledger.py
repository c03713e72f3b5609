"""What a model's private groups have released, as a value; and what that means for a sample and for k removed ones.

Pure: every change gives a new value. Whoever keeps it durably writes `to_json` in the transaction of the act itself,
a release before its training starts (a crash must not undercharge), a removal with the request.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from shardgraph.errors import InputError, WorkspaceError
from shardgraph.learn.private.accounting import Mechanism, epsilon
from shardgraph.learn.private.budget import Budget, after, served
from shardgraph.learn.private.removal import METHOD, group_alpha, group_served


@dataclass(frozen=True)
class Guarantee:
    """The adapters are (alpha, beta)-close to ones that never saw the removed samples, by `method`.

    method   "pld-group": the accountant's own curve; "formula/pld" and "formula/rdp": the paper's, on that epsilon
    """

    alpha: float
    beta: float
    method: str
    removed: int

    def within(self, budget: Budget) -> bool:
        return self.alpha <= budget.alpha and self.beta <= budget.beta


@dataclass(frozen=True)
class GroupReleases:
    """One group's builds that learned privately, oldest first, and how many of their samples went since the last.

    A build that failed half-way counts: its noise was drawn and its sums may have been seen.
    """

    group: str
    builds: tuple[Mechanism, ...]
    removed: int = 0


@dataclass(frozen=True)
class Releases:
    """All groups' releases, sorted by name."""

    groups: tuple[GroupReleases, ...] = ()

    def built(self, group: str, mechanism: Mechanism) -> "Releases":
        """The group was trained (or its training began) once more: nothing removed earlier is in it."""
        before = self._get(group)
        return self._with(GroupReleases(group, (*before.builds, mechanism)))

    def after_removal(self, groups: Iterable[str], count: int = 1) -> "Releases":
        """`count` distinct samples, which these groups had used privately, were removed."""
        if count < 0:
            raise InputError(f"the number of removed samples must be >= 0, got {count}")
        result = self
        for name in sorted(set(groups)):
            before = result._get(name)
            if not before.builds:
                raise InputError(f"group {name!r} has released nothing, so nothing can be charged to it")
            result = result._with(replace(before, removed=before.removed + count))
        return result

    def current(self) -> "Releases":
        """Only the last build of each group: what a reader sees who kept no earlier model."""
        return Releases(tuple(replace(each, builds=each.builds[-1:]) for each in self.groups))

    def of(self, groups: Iterable[str]) -> "Releases":
        """The releases of some groups."""
        wanted = set(groups)
        return Releases(tuple(each for each in self.groups if each.group in wanted))

    def to_json(self) -> list[dict[str, Any]]:
        """The value as plain lists and dicts."""
        return [asdict(each) | {"builds": [asdict(build) for build in each.builds]} for each in self.groups]

    @classmethod
    def from_json(cls, value: list[dict[str, Any]]) -> "Releases":
        """The value that `to_json` wrote."""
        return cls(
            tuple(
                GroupReleases(each["group"], tuple(Mechanism(**build) for build in each["builds"]), each["removed"])
                for each in value
            )
        )

    def _get(self, group: str) -> GroupReleases:
        return next((each for each in self.groups if each.group == group), GroupReleases(group, ()))

    def _with(self, changed: GroupReleases) -> "Releases":
        others = [each for each in self.groups if each.group != changed.group]
        return Releases(tuple(sorted([*others, changed], key=lambda each: each.group)))


def sample_loss(releases: Releases, delta: float) -> tuple[float, str]:
    """One sample's (epsilon, method) at `delta`, if all these groups used it privately in all their builds."""
    return epsilon((build for each in releases.groups for build in each.builds), delta)


def guarantee(releases: Releases, budget: Budget, delta: float, removed: int | None = None) -> Guarantee:
    """How close these groups, together, are to never having seen what was removed.

    removed   how many distinct samples; at most (and unless given) the sum over the groups. For the formula alone.
    """
    charged = [(each, build) for each in releases.groups if each.removed for build in each.builds]
    if not charged:
        return Guarantee(0.0, 0.0, METHOD, 0)
    count = sum(each.removed for each in releases.groups) if removed is None else removed
    if not budget.vacuous:
        alpha = group_alpha([(build, each.removed) for each, build in charged], budget.beta)
        if alpha is not None:
            return Guarantee(alpha, budget.beta, METHOD, count)
    spent, method = epsilon((build for _, build in charged), delta)
    return Guarantee(*after(count, spent, delta), f"formula/{method}", count)


def requests(mechanisms: Iterable[Mechanism], budget: Budget, delta: float) -> tuple[int, str]:
    """How many removals these releases (of all that use the samples) serve from the start, and by which method."""
    mechanisms = tuple(mechanisms)
    if not budget.vacuous:
        found = group_served(mechanisms, budget.alpha, budget.beta)
        if found is not None:
            return found, METHOD
    spent, method = epsilon(mechanisms, delta)
    return served(budget, spent, delta), f"formula/{method}"


def require(mechanisms: Iterable[Mechanism], budget: Budget, delta: float) -> int:
    """The requests served, or an error where the budget is spent before the first."""
    count, method = requests(mechanisms, budget, delta)
    if count < 1:
        raise WorkspaceError(
            f"the budget {budget} is spent: after these releases ({method}) not one removal would be within it; "
            "raise the budget or the noise, or make the edges plain"
        )
    return count
