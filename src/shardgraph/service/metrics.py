"""Prometheus metrics: what calls take, and what the queue and the model are like at the moment of asking."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shardgraph.errors import ShardgraphError
from shardgraph.forget.build.build import wanted_groups
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.queue import queue
from shardgraph.service.office import Office
from shardgraph.service.timing import quantile, seconds_to_forget

WAITING = ("received", "instant", "erasing", "retraining", "verified")


class Metrics:
    """The metrics of one service."""

    def __init__(self, office: Office) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter("shardgraph_calls", "Calls answered", ("route", "status"), registry=self.registry)
        self.seconds = Histogram("shardgraph_call_seconds", "Time to answer", ("route",), registry=self.registry)
        self.registry.register(_Now(office))

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)


class _Now(Collector):
    """What is looked up when somebody asks."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The queue and the model, now."""
        catalogue = self._office.reader.catalogue
        states = GaugeMetricFamily("shardgraph_requests", "Forget requests by state", labels=["state"])
        counts = dict(catalogue.all("SELECT state, count(*) FROM queue GROUP BY state"))
        for state in queue.STATES:
            states.add_metric([state], counts.get(state, 0))
        yield states
        yield GaugeMetricFamily("shardgraph_queue_age_seconds", "Age of the oldest that waits", value=self._age())
        taken = seconds_to_forget(catalogue)
        spans = GaugeMetricFamily("shardgraph_time_to_forget_seconds", "From received to done", labels=["quantile"])
        for share in (0.5, 0.99):
            spans.add_metric([str(share)], quantile(taken, share))
        yield spans
        with suppress(ShardgraphError):  # what cannot be read now is left out, and the others are told
            yield GaugeMetricFamily("shardgraph_adapters_served_ratio", "Adapters in service", value=self._share())

    def _age(self) -> float:
        marks = ",".join("?" * len(WAITING))
        sql = f"SELECT min(received) FROM queue WHERE state IN ({marks})"
        first = self._office.reader.catalogue.one(sql, *WAITING)
        if not first or not first[0]:
            return 0.0
        return (datetime.now(UTC) - datetime.fromisoformat(first[0])).total_seconds()

    def _share(self) -> float:
        state, reader = self._office.served.state, self._office.reader
        if state is None:
            return 0.0
        wanted = wanted_groups(reader.store, reader.config, Manifest.load(reader.root).fingerprint)
        adapters = sum(group.adapters for group in wanted.values())
        return len(state.model.average) / adapters if adapters else 1.0
