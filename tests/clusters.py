"""Ray clusters of several nodes on this machine, for tests that lose some of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@contextmanager
def nodes(count: int = 4, cpus: int = 1) -> Iterator[Any]:
    """A cluster of `count` nodes with `cpus` cores each; the first is the head."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            made.add_node(num_cpus=cpus)
        yield made
    finally:
        made.shutdown()


def kill_one(cluster: Any) -> None:
    """Kill a node that is not the head, with all that runs on it, without a word."""
    cluster.remove_node(sorted(cluster.worker_nodes, key=lambda node: node.unique_id)[0], allow_graceful=False)
