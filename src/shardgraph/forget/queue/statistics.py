"""Statistics from the ledger: accuracy over time, what erasures cost and saved, deadlines kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardgraph.forget.proof.keys import Keys
from shardgraph.forget.queue import queue
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import ledger, requests
from shardgraph.storage.tables.ledger import Event

MEASURED = "measured"
FORGETTING = ("received", "accepted")  # events: a request is entered, an erasure begins


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


def last_forgetting(catalogue: Catalogue) -> int:
    """The number of the last event that asked for something to be forgotten; 0 before the first.

    A model that was measured before it may have seen what is withheld or erased since: its figures are not shown.
    """
    last = (ledger.last_events(catalogue, event, 1) for event in FORGETTING)
    return max((event.number for found in last for event in found), default=0)


def measurements(catalogue: Catalogue, most: int = 200) -> list[Measurement]:
    """The last measurements since the last forgetting, the oldest first."""
    found = ledger.last_events(catalogue, MEASURED, most)
    since = last_forgetting(catalogue)  # read second: a request that comes in between hides what was found
    shown = [event for event in reversed(found) if event.number > since]
    return [Measurement(event.time, event.detail["accuracy"], event.detail["samples"]) for event in shown]


def hide_withdrawn(catalogue: Catalogue, events: Sequence[Event]) -> list[Event]:
    """The events without the accuracies that were measured before the last forgetting."""
    since = last_forgetting(catalogue)
    return [
        replace(event, detail={"measures": event.detail["measures"]})
        if event.event == MEASURED and event.number < since
        else event
        for event in events
    ]


def measured(catalogue: Catalogue, keys: Keys, model: str) -> bool:
    """Whether the last measurement was of this model, and nothing was forgotten since."""
    last = ledger.last_events(catalogue, MEASURED, 1)
    return bool(last) and last[0].detail["measures"] == keys.mark(model) and last[0].number > last_forgetting(catalogue)


def measure(catalogue: Catalogue, keys: Keys, model: str, evaluate: Callable[[], dict[str, Any]]) -> None:
    """Record the accuracy of a model in the ledger, unless the last measurement was of the same model.

    If a request comes in while the model is measured, nothing is recorded: the figure may be of a model that saw what
    the request names.
    """
    before = last_forgetting(catalogue)
    if measured(catalogue, keys, model):
        return
    figures = evaluate()
    told = {"measures": keys.mark(model), "accuracy": figures["accuracy"], "samples": figures["samples"]}
    with catalogue.transaction() as transaction:
        if last_forgetting(catalogue) == before:
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
