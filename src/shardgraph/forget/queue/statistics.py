"""Statistics from the ledger: accuracy over time, what erasures cost and saved, deadlines kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shardgraph.forget.proof.keys import Keys
from shardgraph.forget.queue import queue
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import ledger, requests

MEASURED = "measured"


@dataclass(frozen=True)
class Measurement:
    """The accuracy of the model on the held-out samples, both as of `time`."""

    time: str
    accuracy: float
    samples: int


@dataclass(frozen=True)
class Costs:
    """Samples that erasures have read again, and those that as many full retrainings would have read."""

    forgets: int
    revisited: int
    retraining: int

    @property
    def saved(self) -> float:
        """The share of samples that was not read again."""
        return 1 - self.revisited / self.retraining if self.retraining else 0.0


@dataclass(frozen=True)
class Deadlines:
    """How requests stand against their deadlines."""

    by_state: dict[str, int]
    overdue: int
    done: int
    done_in_time: int
    nearest: tuple[requests.Request, ...]  # open requests, by deadline


def measurements(catalogue: Catalogue, most: int = 200) -> list[Measurement]:
    """The last measurements, the oldest first."""
    found = reversed(ledger.last_events(catalogue, MEASURED, most))
    return [Measurement(event.time, event.detail["accuracy"], event.detail["samples"]) for event in found]


def measured(catalogue: Catalogue, keys: Keys, model: str) -> bool:
    """Whether the last measurement was of this model."""
    last = ledger.last_events(catalogue, MEASURED, 1)
    return bool(last) and last[0].detail["measures"] == keys.mark(model)


def measure(catalogue: Catalogue, keys: Keys, model: str, evaluate: Callable[[], dict[str, Any]]) -> None:
    """Record the accuracy of a model in the ledger, unless the last measurement was of the same model."""
    if not measured(catalogue, keys, model):
        figures = evaluate()
        told = {"measures": keys.mark(model), "accuracy": figures["accuracy"], "samples": figures["samples"]}
        with catalogue.transaction() as transaction:
            ledger.add_event(transaction, MEASURED, told)


def costs(catalogue: Catalogue) -> Costs:
    """What all accepted erasures cost; events of versions that did not record it are left out."""
    found = ledger.count_costs(catalogue)
    return Costs(found.erasures, found.revisited, found.retraining)


def deadlines(catalogue: Catalogue, asker: str | None = None, most: int = 8) -> Deadlines:
    """How requests stand against their deadlines: all requests, or those of one asker."""
    done, in_time = requests.count_done(catalogue, asker)
    return Deadlines(
        by_state=requests.count_requests_by_state(catalogue, asker),
        overdue=requests.count_overdue(catalogue, queue.now(), asker),
        done=done,
        done_in_time=in_time,
        nearest=tuple(requests.nearest_deadlines(catalogue, asker, most)),
    )
