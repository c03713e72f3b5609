"""How long forgetting takes: from the queue's own history."""

from datetime import datetime

from shardgraph.storage.database import Catalogue

RECENT = 1000  # requests that count


def seconds_to_forget(catalogue: Catalogue) -> list[float]:
    """Seconds from received to done of the last requests, sorted."""
    sql = (
        "SELECT q.received, m.time FROM queue q JOIN moves m ON m.entry = q.number AND m.state = 'done'"
        " WHERE q.state = 'done' AND q.request IS NOT NULL ORDER BY q.number DESC LIMIT ?"
    )
    return sorted(_between(start, end) for start, end in catalogue.all(sql, RECENT))


def quantile(ordered: list[float], share: float) -> float:
    """The value below which this share of an ordered list lies; 0 of an empty one."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def expected_seconds(catalogue: Catalogue) -> float | None:
    """The median of the last requests; None before the first."""
    taken = seconds_to_forget(catalogue)
    return quantile(taken, 0.5) if taken else None


def _between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
