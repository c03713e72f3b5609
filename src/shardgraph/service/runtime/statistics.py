"""Figures about the past and the present that no model made: costs, deadlines, durations, the length of the queue."""

from dataclasses import dataclass
from datetime import UTC, datetime

from shardgraph.forget import Costs, Deadlines, Workspace, costs, deadlines
from shardgraph.storage.tables import requests

RECENT = 1000  # requests whose durations count


@dataclass(frozen=True)
class GroupCounts:
    """How many groups and adapters the model has when nothing is missing."""

    groups: int
    adapters: int


class Statistics:
    """Figures of one open workspace; each is a few single statements, from any thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._catalogue = workspace, workspace.context.catalogue

    def costs(self) -> Costs:
        """What all erasures cost."""
        return costs(self._catalogue)

    def deadlines(self, asker: str | None = None) -> Deadlines:
        """Requests (of this asker) against their deadlines."""
        return deadlines(self._catalogue, asker)

    def request_counts(self) -> dict[str, int]:
        """The number of requests in each state."""
        counts = requests.count_requests_by_state(self._catalogue)
        return {state: counts.get(state, 0) for state in requests.STATES}

    def queue_age(self) -> float:
        """The age in seconds of the oldest request that waits; 0 if none does."""
        first = requests.oldest_received(self._catalogue, requests.OPEN)
        return (datetime.now(UTC) - datetime.fromisoformat(first)).total_seconds() if first else 0.0

    def forget_seconds(self, asker: str | None = None) -> list[float]:
        """Seconds from received to done of the last requests (of this asker), sorted."""
        times = requests.times_to_done(self._catalogue, RECENT, asker)
        return sorted(
            (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() for start, end in times
        )

    def expected_seconds(self, asker: str | None = None) -> float | None:
        """The median of `forget_seconds`; None before the first request (of this asker) is done."""
        return quantile(self.forget_seconds(asker), 0.5)

    def expected_groups(self) -> GroupCounts:
        """How many groups and adapters a complete model has."""
        return GroupCounts(*self._workspace.views.complete_size())


def quantile(ordered: list[float], share: float) -> float | None:
    """The value below which this share of an ordered list lies; None of an empty list."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None
