"""What the ledger and the queue say of the past: accuracy over time, what forgetting cost and saved, deadlines kept."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shardgraph.forget.proof.keys import Secrets
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Entry
from shardgraph.storage.database import Catalogue

MEASURED = "measured"
OPEN = tuple(state for state in queue.STATES if state not in queue.FINAL)


@dataclass(frozen=True)
class Measurement:
    """How accurate the model was on the held-out samples of then."""

    time: str
    accuracy: float
    samples: int


@dataclass(frozen=True)
class Costs:
    """Samples that forgetting has read again, and those that as many full retrainings would have read."""

    forgets: int
    revisited: int
    retraining: int

    @property
    def saved(self) -> float:
        """The share that was not read again."""
        return 1 - self.revisited / self.retraining if self.retraining else 0.0


@dataclass(frozen=True)
class Deadlines:
    """Requests against their deadlines."""

    by_state: dict[str, int]
    overdue: int
    done: int
    done_in_time: int
    nearest: tuple[Entry, ...]  # those that wait, by deadline


def measurements(catalogue: Catalogue, most: int = 200) -> list[Measurement]:
    """The last measurements, the oldest first."""
    sql = "SELECT time, detail FROM ledger WHERE event = ? ORDER BY number DESC LIMIT ?"
    found = [(time, json.loads(detail)) for time, detail in catalogue.all(sql, MEASURED, most)]
    return [Measurement(time, told["accuracy"], told["samples"]) for time, told in reversed(found)]


def measured(catalogue: Catalogue, secrets: Secrets, model: str) -> bool:
    """Whether the last measurement was of this model."""
    last = catalogue.one("SELECT detail FROM ledger WHERE event = ? ORDER BY number DESC", MEASURED)
    return last is not None and json.loads(last[0])["measures"] == secrets.mark(model)


def measure(catalogue: Catalogue, secrets: Secrets, model: str, evaluate: Callable[[], dict[str, Any]]) -> None:
    """Tell the ledger how accurate a model is; not again if that was the last thing measured."""
    if not measured(catalogue, secrets, model):
        figures = evaluate()
        told = {"measures": secrets.mark(model), "accuracy": figures["accuracy"], "samples": figures["samples"]}
        with catalogue.transaction() as db:
            queue.tell(db, MEASURED, told)


def costs(catalogue: Catalogue) -> Costs:
    """What all accepted forgets cost; those of ledgers that did not say so yet are left out."""
    sql = (
        "SELECT count(*), sum(json_extract(detail, '$.revisited')), sum(json_extract(detail, '$.of')) FROM ledger"
        " WHERE event = 'accepted' AND json_extract(detail, '$.of') IS NOT NULL"
    )
    found = catalogue.one(sql)
    return Costs(*(value or 0 for value in found)) if found else Costs(0, 0, 0)


def deadlines(catalogue: Catalogue, asker: str | None = None, most: int = 8) -> Deadlines:
    """Requests against their deadlines: all, or one asker's."""
    mine = "(? IS NULL OR asker = ?)"
    counts = dict(catalogue.all(f"SELECT state, count(*) FROM queue WHERE {mine} GROUP BY state", asker, asker))
    waits = f"state IN ({','.join('?' * len(OPEN))}) AND {mine}"
    late = catalogue.one(f"SELECT count(*) FROM queue WHERE {waits} AND deadline < ?", *OPEN, asker, asker, queue.now())
    kept = catalogue.one(
        "SELECT count(*), sum(m.time <= q.deadline) FROM queue q"
        " JOIN moves m ON m.entry = q.number AND m.state = 'done'"
        f" WHERE q.state = 'done' AND {mine}",
        asker,
        asker,
    )
    sql = f"SELECT {queue.COLUMNS} FROM queue WHERE {waits} ORDER BY deadline LIMIT ?"
    nearest = tuple(Entry(*row) for row in catalogue.all(sql, *OPEN, asker, asker, most))
    done, in_time = kept or (0, 0)
    return Deadlines(counts, late[0] if late else 0, done, in_time or 0, nearest)
