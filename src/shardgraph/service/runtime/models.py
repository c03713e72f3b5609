"""Models: the only way from a call to a model, and to figures that a model made.

A call that shows a prediction, an accuracy, a digest or a count of adapters computes it within `Models.use`, which
holds a lease. `middleware.ModelGate` ends the lease when the answer is sent. So no answer that used a model is sent
after a request was accepted whose data the model saw.
"""

import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from shardgraph.errors import DamagedFile, ShardgraphError, WorkspaceBusy
from shardgraph.forget import Measurement, hide_withdrawn, measurements
from shardgraph.learn.ensemble import Model
from shardgraph.service.runtime.runtime import Lease, Runtime
from shardgraph.storage.tables.ledger import Event

ATTEMPTS, PAUSE = 20, 0.05  # attempts to compute an answer with one model; seconds to wait while a file is rewritten
T = TypeVar("T")


class LeasedModels:
    """The models of one served state, and the figures that models made; valid while the lease lasts."""

    def __init__(self, runtime: Runtime, lease: Lease) -> None:
        self._runtime, self._lease = runtime, lease

    @property
    def id(self) -> str | None:
        """The state id that predictions carry; None before there is a model."""
        return self._lease.state.id

    @property
    def exists(self) -> bool:
        """Whether there is a model."""
        return self._lease.state.model is not None

    @property
    def whole(self) -> Model:
        """The model of all data; `WorkspaceBusy` before it is loaded."""
        if self._lease.state.model is None:
            raise WorkspaceBusy("the model is being loaded; try again in a moment")
        return self._lease.state.model

    def of_right(self, consumer: str) -> Model:
        """The model of a consumer's right."""
        return self._runtime.consumer_model(consumer)

    def accuracy(self, model: Model, sources: Collection[str] | None = None) -> dict[str, Any]:
        """The accuracy of one of these models on the held-out samples (of these sources, if they are given).

        It stops when the model is replaced.
        """
        return self._runtime.accuracy(model, self._check, sources)

    def measurements(self, most: int = 200) -> list[Measurement]:
        """The accuracies that the worker measured since the last forgetting, the oldest first."""
        return measurements(self._runtime.catalogue, most)

    def events(self, after: int, limit: int) -> list[Event]:
        """Events of the ledger by number, without accuracies from before the last forgetting."""
        return hide_withdrawn(self._runtime.catalogue, self._runtime.queries.events(after, limit))

    def status(self) -> dict[str, Any]:
        """The workspace in figures; those of the model are of the model that is served, not of the one on disk."""
        found, state = self._runtime.queries.status(), self._lease.state
        if state.model is None or state.key is None:
            return found | {"model_digest": None, "complete": False}
        complete = found["complete"] and not state.key[1] and state.model.digest == found["model_digest"]
        missing = found["groups"]["missing"] + found["groups"]["serving"] - state.groups
        return found | {
            "model_digest": state.model.digest,
            "complete": complete,
            "classes": len(state.model.classes),
            "groups": {"serving": state.groups, "missing": max(missing, 0)},
            "lambda": state.model.weight,
        }

    def _check(self) -> None:
        if self._lease.superseded:
            raise WorkspaceBusy("the model was replaced while it was used; try again in a moment")


class Models:
    """One call's access to models; its leases are in a list that the gate ends when the answer is sent."""

    def __init__(self, runtime: Runtime, leases: list[Lease]) -> None:
        self._runtime, self._leases = runtime, leases

    def use(self, function: Callable[[LeasedModels], T]) -> T:
        """What `function` makes of the models; made anew if it was not finished when the models were replaced."""
        for left in reversed(range(ATTEMPTS)):
            lease = self._runtime.served.take()
            self._leases.append(lease)
            try:
                found = function(LeasedModels(self._runtime, lease))
                if not lease.revoked:
                    return found
            except ShardgraphError as error:
                rewritten = isinstance(error, DamagedFile) and left > 0
                if not lease.superseded and not rewritten:
                    raise
                if rewritten:
                    time.sleep(PAUSE)
            lease.end()
            self._leases.remove(lease)
        raise WorkspaceBusy("the model was replaced again and again while it was used; try again in a moment")
