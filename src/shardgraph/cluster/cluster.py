"""A Ray cluster for the other packages: calls of a function, a limited number at a time, and their results.

Ray decides where a call runs, and repeats it elsewhere when its worker or its node is lost. A call is a pure function
of its item, so repeating it is harmless, and every item has one result. A worker may find its node unfit (`Unfit`);
that node then gets no more calls of this run, and a warning gives the reason.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from shardgraph.cluster.ray_session import LOCAL, resolve_address, session
from shardgraph.errors import ConfigError, ShardgraphError, WorkspaceError

Item = TypeVar("Item")
Value = TypeVar("Value")

CALLS_PER_SLOT = 2  # pending calls for each core or GPU: one runs, one waits for it
RETRIES = 5  # of a call whose worker was lost
LEAST_MEMORY = 256 << 20  # bytes that any call may take; larger calls reserve memory with the scheduler
REFRESH = 1.0  # seconds for which the list of nodes is cached
PATIENCE = 30.0  # seconds without a node to run on before a warning

log = logging.getLogger("shardgraph")


@dataclass(frozen=True)
class Unfit:
    """The result of a call whose node cannot do the work as required; `error` holds the reason."""

    error: ShardgraphError


@dataclass(frozen=True)
class _Failed:
    error: Exception


@dataclass(frozen=True)
class _Node:
    id: str
    host: str
    resources: dict[str, float]


class Cluster:
    """A cluster at an address, or a local one on this machine, which starts when it is first used.

    `cpus` is the size of a local cluster; None: all cores.
    """

    def __init__(self, address: str | None = None, cpus: int | None = None) -> None:
        self.address = resolve_address(address)
        self._cpus = cpus
        self._ray: Any = None
        self._seen: tuple[float, list[_Node]] = (float("-inf"), [])

    @property
    def own(self) -> bool:
        """Whether this is a local cluster, which consists of this machine alone."""
        return self.address == LOCAL

    def close(self) -> None:
        """Disconnect; a local cluster ends."""
        if self._ray is not None:
            self._ray, self._seen = None, (float("-inf"), [])
            session().leave()

    def slots(self, kind: str, without: Iterable[str] = ()) -> int:
        """The number of calls that can run at once: cores or GPUs ("CPU", "GPU") of the nodes that are alive."""
        left_out = set(without)
        return int(sum(node.resources.get(kind, 0) for node in self._nodes() if node.id not in left_out))

    def run_everywhere(self, work: Callable[[], Value], kind: str = "CPU") -> dict[str, Value]:
        """The result of `work` on every node that is alive and has this resource, by the node's id."""
        ray = self._connected()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        share: dict[str, float] = {"num_cpus": 0} if kind == "CPU" else {"num_cpus": 0, "num_gpus": 0.01}
        calls = {}
        for node in self._nodes():
            if node.resources.get(kind, 0) >= 1:
                there = NodeAffinitySchedulingStrategy(node.id, soft=False)
                call = ray.remote(_attempt).options(scheduling_strategy=there, **share)
                calls[node.id] = call.remote(_run_without_item, work)
        results = {}
        for node_id, reference in calls.items():
            try:
                _, results[node_id] = ray.get(reference)
            except ray.exceptions.RayError:
                continue  # the node was lost in the meantime
        return {node_id: result for node_id, result in results.items() if not isinstance(result, _Failed | Unfit)}

    def run(
        self,
        work: Callable[[Item], Value | Unfit],
        items: Iterable[Item],
        *,
        gpus: int = 0,
        memory: Callable[[Item], int] = lambda item: 0,
        in_order: bool = False,
    ) -> Generator[tuple[Item, Value], None, None]:
        """Every item with the result of `work`, once, in the order of completion or of the items.

        `work` must be importable on every node; it takes one core, or one GPU, and about `memory(item)` bytes. Items
        are read when there is room for another call. Leaving early cancels the pending calls.
        """
        self._connected()
        if gpus and not self.slots("GPU"):
            raise ConfigError(f"device 'cuda' was asked for, but no node of the cluster at {self.address} has a GPU")
        run = _Run[Item, Value](self, work, "GPU" if gpus else "CPU", memory, in_order)
        try:
            yield from run.results(iter(items))
        finally:
            run.cancel()

    def _connected(self) -> Any:
        if self._ray is None:
            self._ray = session().enter(self.address, self._cpus)
        return self._ray

    def _nodes(self) -> list[_Node]:
        ray, (when, nodes) = self._connected(), self._seen
        if time.monotonic() - when > REFRESH:
            alive = [node for node in ray.nodes() if node["Alive"]]
            nodes = [_Node(node["NodeID"], node["NodeManagerAddress"], node["Resources"]) for node in alive]
            self._seen = (time.monotonic(), nodes)
        return nodes


class _Run(Generic[Item, Value]):
    """The calls of one run: pending ones, and results that wait for an earlier one."""

    def __init__(
        self,
        cluster: Cluster,
        work: Callable[[Item], Value | Unfit],
        kind: str,
        memory: Callable[[Item], int],
        in_order: bool,
    ) -> None:
        self._cluster, self._ray, self._kind, self._memory = cluster, cluster._connected(), kind, memory
        self._in_order = in_order
        self._call = self._ray.remote(max_retries=RETRIES)(_attempt)
        self._work = self._ray.put(work)
        self._pending: dict[Any, tuple[int, Item]] = {}
        self._again: deque[tuple[int, Item]] = deque()
        self._waiting: dict[int, tuple[Item, Value]] = {}
        self._refused: dict[str, ShardgraphError] = {}

    def results(self, items: Iterator[Item]) -> Iterator[tuple[Item, Value]]:
        """Send calls and yield results until no item is left."""
        numbered, following = enumerate(items), 0
        while self._fill(numbered):
            for number, item, value in self._finished():
                self._waiting[number] = item, value
            while self._waiting and (following in self._waiting or not self._in_order):
                number = following if self._in_order else next(iter(self._waiting))
                yield self._waiting.pop(number)
                following += 1

    def cancel(self) -> None:
        """Cancel the pending calls."""
        for reference in self._pending:
            self._ray.cancel(reference, force=True)

    def _fill(self, numbered: Iterator[tuple[int, Item]]) -> bool:
        """Send calls while there is room; whether any call is pending then."""
        slots = self._cluster.slots(self._kind, self._refused)
        if not slots and self._refused:
            error = next(iter(self._refused.values()))
            raise type(error)(f"no node of the cluster can do this: {error}", error.ids)
        while self._again:
            self._send(*self._again.popleft())
        room = CALLS_PER_SLOT * max(1, slots) - len(self._pending) - len(self._waiting)
        for number, item in islice(numbered, max(0, room)):
            self._send(number, item)
        return bool(self._pending)

    def _send(self, number: int, item: Item) -> None:
        options: dict[str, Any] = {"num_cpus": 1} if self._kind == "CPU" else {"num_cpus": 1, "num_gpus": 1}
        if memory := self._reserved(self._memory(item)):
            options["memory"] = memory
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        self._pending[self._call.options(**options).remote(self._work, item)] = number, item

    def _reserved(self, wanted: int) -> int:
        """Bytes to reserve: a power of two, so that there are few kinds of calls; at most what the largest node has."""
        if wanted <= LEAST_MEMORY:
            return 0
        largest = max((node.resources.get("memory", 0) for node in self._cluster._nodes()), default=0)
        return min(1 << (wanted - 1).bit_length(), int(largest))

    def _finished(self) -> Iterator[tuple[int, Item, Value]]:
        """The results that are ready, at least one; calls of an unfit node are sent again."""
        done: list[Any] = []
        while not done:
            done, _ = self._ray.wait(list(self._pending), timeout=PATIENCE)
            if not done and not self._cluster.slots(self._kind, self._refused):
                log.warning("the cluster has no node to run this on; waiting for one")
        for reference in done:
            number, item = self._pending.pop(reference)
            node, value = self._get(reference)
            if isinstance(value, Unfit):
                self._refuse(node, value.error)
                self._again.append((number, item))
            elif isinstance(value, _Failed):
                raise value.error
            else:
                yield number, item, value

    def _get(self, reference: Any) -> tuple[str, Any]:
        try:
            node, value = self._ray.get(reference)
            return node, value
        except self._ray.exceptions.RayError as problem:
            reason = str(problem).strip().split("\n")[0]
            message = f"a call on the cluster failed ({type(problem).__name__}: {reason}); try again"
            raise WorkspaceError(message) from None

    def _refuse(self, node: str, error: ShardgraphError) -> None:
        if node not in self._refused:
            self._refused[node] = error
            hosts = {one.id: one.host for one in self._cluster._nodes()}
            log.warning("node %s (%s) gets no work: %s", hosts.get(node, "?"), node[:8], error)


def _attempt(work: Callable[[Item], Value], item: Item) -> tuple[str, Value | _Failed]:
    """Do the work on a node; errors are returned as values, so that their text is in none of Ray's logs."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    try:
        return node, work(item)
    except ShardgraphError as error:
        return node, _Failed(error)
    except Exception as error:
        return node, _Failed(WorkspaceError(f"{type(error).__name__} on a node of the cluster: {error}"))


def _run_without_item(work: Callable[[], Value]) -> Value:
    return work()
