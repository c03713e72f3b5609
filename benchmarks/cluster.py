"""Groups on a Ray cluster of this machine against the same groups in worker processes, in one run.

    python benchmarks/cluster.py [--out results.json] [--samples 8192] [--rounds 1]

Data is made here: texts of 32 tokens x 384 in 77 classes, 256 groups (16 coarse x 16 fine), two cores for either. The
start of the cluster, until its workers answer, is not counted (`cluster_start_seconds` says what it took); that the
workers import torch is counted, as it is for the processes. With more rounds Ray's workers stay, the processes start
anew; the ratio is the first round's: 1.3 times the processes' time over Ray's. Prints lines `bench NAME RATIO WANTED`.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from cpu import make, shard, timed_run, write_tasks

from shardgraph.cluster.cluster import Cluster
from shardgraph.learn.executors import Executor, ProcessExecutor
from shardgraph.learn.executors.ray import RayExecutor
from shardgraph.learn.numerics import fingerprint
from shardgraph.learn.recipe import Recipe

CORES, ALLOWED = 2, 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    shards = shard(make(args.samples), 16, 16)
    cluster = Cluster("local", CORES)
    start = time.perf_counter()
    list(cluster.run(len, ["call"] * 4 * CORES))  # its workers answer; they have not imported torch yet
    started = time.perf_counter() - start
    executors: dict[str, Executor] = {"processes": ProcessExecutor(CORES), "ray": RayExecutor(cluster, fingerprint())}
    seconds: dict[str, list[float]] = {name: [] for name in executors}
    digests = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = write_tasks(shards, Path(folder), Recipe())
        for _ in range(args.rounds):
            for name, executor in executors.items():
                took, found = timed_run(executor, tasks)
                seconds[name].append(took)
                digests.append(found)
    cluster.close()
    equal = all(found == digests[0] for found in digests)
    report = {
        "samples": args.samples,
        "groups": len(shards),
        "cores": CORES,
        "cluster_start_seconds": started,
        "processes_seconds": seconds["processes"],
        "ray_seconds": seconds["ray"],
        "equal_digests": equal,
    }
    print(json.dumps(report, indent=1))
    print(f"bench ray-over-processes {ALLOWED * seconds['processes'][0] / seconds['ray'][0]:.2f} 1")
    print(f"bench ray-equal-digests {int(equal)} 1")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
