"""Prometheus metrics: the duration of calls, and the queue and the model at the moment of the scrape."""

from collections.abc import Iterator
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shardgraph.errors import ShardgraphError
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.service.runtime.statistics import quantile


class Metrics:
    """The metrics of one service."""

    def __init__(self, runtime: Runtime) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter("shardgraph_calls", "Calls answered", ("route", "status"), registry=self.registry)
        self.seconds = Histogram("shardgraph_call_seconds", "Time to answer", ("route",), registry=self.registry)
        self.registry.register(_CurrentValues(runtime))

    def text(self) -> bytes:
        """All metrics in Prometheus's text format; call it within `Models.use`, for one is of the served model."""
        return generate_latest(self.registry)


class _CurrentValues(Collector):
    """Values that are read at every scrape."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The queue and the model as they are now."""
        statistics = self._runtime.statistics
        states = GaugeMetricFamily("shardgraph_requests", "Forget requests by state", labels=["state"])
        for state, count in statistics.request_counts().items():
            states.add_metric([state], count)
        yield states
        age = statistics.queue_age()
        yield GaugeMetricFamily("shardgraph_queue_age_seconds", "Age of the oldest request that waits", value=age)
        seconds = statistics.forget_seconds()
        times = GaugeMetricFamily("shardgraph_time_to_forget_seconds", "From received to done", labels=["quantile"])
        for share in (0.5, 0.99):
            times.add_metric([str(share)], quantile(seconds, share) or 0.0)
        yield times
        with suppress(ShardgraphError):  # a value that cannot be read now is left out, and the others are given
            yield GaugeMetricFamily("shardgraph_adapters_served_ratio", "Adapters in service", value=self._share())

    def _share(self) -> float:
        model = self._runtime.served.current.model
        if model is None:
            return 0.0
        adapters = self._runtime.statistics.expected_groups().adapters
        return len(model.average) / adapters if adapters else 1.0
