"""The model that answers now: swapped without dropping a request, and given up when the last one is through."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shardgraph.errors import WorkspaceBusy
from shardgraph.forget.views.served import Key
from shardgraph.learn.ensemble import Model


@dataclass(eq=False)
class State:
    """A served model under the id that its predictions carry, and how many are being made with it."""

    id: str
    model: Model
    key: Key
    users: int = field(default=0)


class Served:
    """One state at a time; whoever predicts holds the state for as long as that takes."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._state: State | None = None

    @property
    def state(self) -> State | None:
        """The state that the next prediction gets."""
        return self._state

    @contextmanager
    def lease(self) -> Iterator[State]:
        """The current state, until the block ends."""
        with self._change:
            state = self._state
            if state is None:
                raise WorkspaceBusy("the model is being loaded; try again in a moment")
            state.users += 1
        try:
            yield state
        finally:
            with self._change:
                state.users -= 1
                self._change.notify_all()

    def replace(self, new: State | None) -> None:
        """Serve another state; returns when no prediction is made with the old one any more."""
        with self._change:
            old, self._state = self._state, new
            self._change.wait_for(lambda: old is None or old.users == 0)
