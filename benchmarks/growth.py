"""How time and memory grow: groups 16 to 4,096 at fixed data, data 1x to 16x at fixed groups.

    python benchmarks/growth.py [--out results.json] [--figure docs/growth.png]

The cost model has two constants, fitted on the first and last point of the data series: seconds per step and
seconds per sample, epoch and adapter of its group. The line it predicts for the other points, and for all of the
groups series, is drawn beside what was measured. Each point runs in a process of its own, so that its peak memory is
its own.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from cpu import make, shard, write_tasks

from shardgraph.learn.executors import GroupTask, SerialExecutor
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

RECIPE = Recipe(epochs=4)
Point = dict[str, Any]
FINE = 8
GROUPS = (16, 64, 256, 1024, 4096)
SAMPLES = 32_768  # eight a group at last


def measure(tasks: list[GroupTask]) -> Point:
    """Seconds and peak memory of training these tasks from their files, one after the other."""
    start = time.perf_counter()
    results = list(SerialExecutor().run(tasks))
    seconds = time.perf_counter() - start
    return {
        "groups": len(tasks),
        "seconds": seconds,
        "steps": sum(RECIPE.epochs * -(-result.samples // RECIPE.batch) for result in results),
        "visits": RECIPE.epochs * sum(result.samples * result.adapters for result in results),
        "largest_group": max(result.samples for result in results),
        "peak_mb": peak_mb(),
    }


def peak_mb() -> float:
    """The most memory this process held; unlike getrusage's, not that of the process which started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def apart(samples: Samples, groups: int) -> Point:
    """`measure` in a new process, for so many groups, less those that hold one class alone."""
    shards = {n: s for n, s in shard(samples, groups // FINE, FINE).items() if len(set(s.labels)) > 1}
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        found = {"samples": len(samples)} | pool.apply(measure, (write_tasks(shards, Path(folder), RECIPE),))
    print(json.dumps(found), flush=True)
    return found


def fit(points: list[Point]) -> tuple[float, float]:
    """Seconds per step and per visit of a sample by an adapter, from two points."""
    rows = np.array([[p["steps"], p["visits"]] for p in points])
    found = np.linalg.lstsq(rows, np.array([p["seconds"] for p in points]), rcond=None)[0]
    return float(found[0]), float(found[1])


def draw(by_groups: list[Point], by_data: list[Point], path: Path) -> None:
    """Measured points and predicted lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, points, x in ((axes[0], by_groups, "groups"), (axes[1], by_data, "samples")):
        ax.loglog([p[x] for p in points], [p["seconds"] for p in points], "o", label="measured")
        ax.loglog([p[x] for p in points], [p["predicted"] for p in points], "-", label="cost model")
        ax.set(xlabel=x, ylabel="seconds")
        ax.legend()
    for points, x in ((by_groups, "groups"), (by_data, "samples")):
        axes[2].semilogx([p[x] for p in points], [p["peak_mb"] for p in points], "o-", label=f"over {x}")
    axes[2].set(xlabel="groups, samples", ylabel="peak memory, MB", ylim=(0, None))
    axes[2].legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    by_data = [apart(make(1024 * factor), 64) for factor in (1, 2, 4, 8, 16)]
    samples = make(SAMPLES)
    by_groups = [apart(samples, groups) for groups in GROUPS]
    per_step, per_visit = fit([by_data[0], by_data[-1]])
    for point in (*by_data, *by_groups):
        point["predicted"] = per_step * point["steps"] + per_visit * point["visits"]
    worst = max(abs(np.log(p["seconds"] / p["predicted"])) for p in (*by_data, *by_groups))
    report = {"per_step": per_step, "per_visit": per_visit, "by_data": by_data, "by_groups": by_groups}
    print(json.dumps(report, indent=1))
    print(f"bench growth-as-predicted {2 / np.exp(worst):.2f} 1")  # no point off by more than a factor of 2
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))
    if args.figure:
        draw(by_groups, by_data, args.figure)


if __name__ == "__main__":
    main()
