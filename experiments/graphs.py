"""What forgetting costs on random graphs and on cliques of the same degree, with the theorem's curve.

    shardgraph experiment graphs

Expect d |S| for cliques and Theta(d^2 |S|) for random graphs, until everything is read (paper, section 4).
"""

import statistics
from typing import Any

from experiments.result import Result, Table
from shardgraph.graph.cost import equal_cliques_cost, expected_cost, random_degree_cost
from shardgraph.graph.topologies import cliques, numbered_names, random_degree

SHARDS, SIZE, SEEDS = 256, 10, range(5)
DEGREES = (1, 3, 7, 15, 31, 63, 127, 255)  # other shards that a shard learns from


def show(_: Any = None) -> Result:
    """Measured on drawn graphs, and predicted."""
    names = numbered_names(SHARDS)
    sizes = dict.fromkeys(names, SIZE)
    rows = []
    for d in DEGREES:
        drawn = [expected_cost(random_degree(names, d, seed), sizes) / SIZE for seed in SEEDS]
        parts = [names[i : i + d + 1] for i in range(0, SHARDS, d + 1)]
        clique = expected_cost(cliques(parts), sizes) / SIZE
        mean, theory = statistics.mean(drawn), random_degree_cost(SHARDS, d, SIZE) / SIZE
        rows.append(
            [d, f"{mean:.2f}", f"{statistics.stdev(drawn):.2f}", f"{theory:.2f}", clique, equal_cliques_cost(d + 1, 1)]
        )
    about = (
        f"Expected number of shards read again to forget one sample, {SHARDS} shards of equal size. A shard learns "
        f"from d others: at random (mean of {len(SEEDS)} graphs), or all in its clique of d + 1."
    )
    columns = ["d", "random graph", "spread", "theorem", "cliques", "d + 1"]
    return Result(
        "graphs", about, [Table("shards read again", columns, rows)], lambda figure: _draw(figure, rows), (7, 4)
    )


def _draw(figure: Any, rows: list[list[Any]]) -> None:
    axes = figure.subplots()
    degrees = [row[0] for row in rows]
    axes.plot(degrees, [float(row[1]) for row in rows], "o", color="#b5443c", label="random graphs, drawn")
    axes.plot(degrees, [float(row[3]) for row in rows], color="#b5443c", label="random graphs, theorem")
    axes.plot(degrees, [float(row[4]) for row in rows], "o", color="#2a7f62", label="cliques, counted")
    axes.plot(degrees, [float(row[5]) for row in rows], color="#2a7f62", label="cliques, d + 1")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="d, shards that a shard learns from", ylabel="shards read again per forget")
    axes.legend(frameon=False)
