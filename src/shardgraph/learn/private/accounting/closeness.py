"""Guarantees of releases: the loss of a sample, the distance to "never saw" after removals, what the budget allows.

A guarantee concerns groups that share samples (a clique): together they are close to adapters that never saw what was
removed from any of them. Groups that share no samples are independent and have a guarantee each.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shardgraph.errors import WorkspaceError
from shardgraph.learn.private.accounting.budget import Budget, after
from shardgraph.learn.private.accounting.mechanism import Mechanism, epsilon
from shardgraph.learn.private.accounting.releases import Releases
from shardgraph.learn.private.accounting.removal import METHOD, group_alpha


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
        return budget.allows(self.alpha, self.beta)


def sample_loss(releases: Releases, readers: Iterable[str], delta: float) -> tuple[float, str]:
    """What a sample that `readers` use privately has lost to all of them: (epsilon, method) at `delta`."""
    return epsilon(releases.mechanisms(readers), delta)


def guarantee(releases: Releases, budget: Budget, delta: float) -> Guarantee:
    """The distance of these groups, together, to adapters that never saw what was removed.

    The curve is read at the budget's beta. The formula, for a vacuous budget or where PLD has no result, counts
    every removed sample at the largest loss among them.
    """
    count = sum(each.count for each in releases.removals)
    if not count:
        return Guarantee(0.0, 0.0, METHOD, 0)
    if not budget.vacuous:
        parts = [(build, releases.removed(name)) for name, builds in releases.builds for build in builds]
        alpha = group_alpha(parts, budget.beta)
        if alpha is not None:
            return Guarantee(alpha, budget.beta, METHOD, count)
    losses = [sample_loss(releases, each.groups, delta) for each in releases.removals]
    worst, method = max(losses)
    return Guarantee(*after(count, worst, delta), f"formula/{method}", count)


def left(releases: Releases, readers: Iterable[str], budget: Budget, delta: float, most: int = 64) -> int:
    """How many more samples (up to `most`) that `readers` use privately may be removed within the budget."""
    readers = tuple(readers)

    def fits(count: int) -> bool:
        return guarantee(releases.after_removal(readers, count), budget, delta).within(budget)

    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:  # low fits, high does not
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def to_rebuild(charged: Releases, budget: Budget, delta: float) -> tuple[str, ...]:
    """The groups that must be rebuilt before removals, which are charged already, are confirmed; most charged first.

    Enter each with `built` before its training starts: the samples that remain are released once more.
    """
    chosen: list[str] = []
    while not guarantee(charged, budget, delta).within(budget):
        worst = max((name for name, _ in charged.builds), key=charged.removed)
        chosen.append(worst)
        charged = charged.of(name for name, _ in charged.builds if name != worst)
    return tuple(chosen)


def require(mechanisms: Iterable[Mechanism], budget: Budget, delta: float) -> int:
    """How many removals these releases (of all that use the samples) serve from the start; an error if none."""
    releases = Releases()
    for i, mechanism in enumerate(mechanisms):
        releases = releases.built(str(i), mechanism)
    count = left(releases, (name for name, _ in releases.builds), budget, delta)
    if count < 1:
        raise WorkspaceError(
            f"the budget {budget} is spent: after these releases not one removal would be within it; "
            "raise the budget or the noise, or make the edges plain"
        )
    return count
