"""À-la-carte models: accuracy against the share of sources that a consumer may see, and what provisioning costs.

    python experiments/alacarte.py pacs_s112.parquet --cache pacs.npz --limit 1200 --draws 1

What is in results/alacarte came from that line: half a minute to embed and a minute to learn, on one core. With half
of the sources and the paper's prototypes, expect about 55% by the adapters that are left and 74% after provisioning.

Embeds the images of a table that has a `domain` column with efficientnet-lite0 (once; kept in --cache), cuts the
training samples of every domain into class-balanced pieces, one source each, and learns them in two graphs: every
source apart, and cliques that join one piece of each domain. Consumers get rights over sources drawn at random. Their
accuracy on all test samples is measured with the adapters that are left, and after provisioning, with the seconds that
it took. Writes alacarte.csv, .json, .png and .svg to --out.
"""

import argparse
import csv
import json
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardgraph.digest import generator, keyed_hash
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.readers.columns import Columns
from shardgraph.embedding.readers.registry import read
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource, OwnGraph, ShardGraph, Topology, cliques
from shardgraph.learn.recipe import Recipe, recipe
from shardgraph.storage.samples import Samples, concatenate

SEED = 7
RECIPES = {
    "second-order prototypes": recipe("default", expansion=0),  # of pooled features alone: minutes less, points lower
    "the paper's prototypes": recipe("default", method="safe"),
}


@dataclass(frozen=True)
class Point:
    """One right: how much it covers, and how accurate its model is."""

    recipe: str
    graph: str
    draw: int
    sources: int
    of_sources: int
    share_of_samples: float
    share_of_adapters: float
    dropped: float  # accuracy with the adapters that are left
    provisioned: float  # accuracy after provisioning
    groups: int  # that provisioning trained
    seconds: float  # that it took


def embedded(table: Path, cache: Path, limit: int | None) -> Samples:
    """The table's images through the backbone, from the cache if they are there; at most `limit` of them."""
    if not cache.exists():
        from shardgraph.embedding.backbones.registry import load_backbone

        records = sorted(read(table, Columns(source="domain")), key=lambda record: keyed_hash(SEED, record.id))
        samples = concatenate(embed(records[:limit], load_backbone("efficientnet-lite0", device="cpu")))
        texts = ("ids", "labels", "sources", "splits")
        columns: dict[str, Any] = {name: np.array(getattr(samples, name)) for name in texts}
        arrays: dict[str, Any] = {name: getattr(samples, name) for name in ("tokens", "offsets", "features")}
        np.savez(cache, **columns, **arrays)
    with np.load(cache) as file:
        strings: dict[str, Any] = {name: tuple(file[name].tolist()) for name in ("ids", "labels", "sources", "splits")}
        samples = Samples(**strings, **{name: file[name] for name in ("tokens", "offsets", "features")})
    return samples.take(range(len(samples))[:limit])


def cut(samples: Samples, pieces: int) -> Samples:
    """The samples, their sources cut into pieces that hold every class alike."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    sources = [""] * len(samples)
    for i in sorted(range(len(samples)), key=lambda i: keyed_hash(SEED, "piece", samples.ids[i])):
        kind = (samples.sources[i], samples.labels[i])
        sources[i] = f"{samples.sources[i]}-{counts[kind] % pieces}"
        counts[kind] += 1
    columns = {name: getattr(samples, name) for name in ("ids", "labels", "tokens", "offsets", "features", "splits")}
    return Samples(**columns, sources=tuple(sources))


def graphs(sources: list[str]) -> dict[str, Topology]:
    """Every source apart, and cliques of the sources that end in the same piece."""
    by_piece: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        by_piece[source.rpartition("-")[2]].append(source)
    joined: ShardGraph = cliques(by_piece.values())
    return {"apart": BySource(), "cliques across domains": OwnGraph(joined)}


def measure(
    samples: Samples, name: str, how: Recipe, graph: str, topology: Topology, draws: int, counts: list[int]
) -> list[Point]:
    """Train one workspace, and try rights over it."""
    sources, points = sorted(set(samples.sources)), []
    with tempfile.TemporaryDirectory() as folder, Workspace.create(Path(folder) / "ws", seed=SEED) as workspace:
        workspace.add(samples)
        workspace.train(topology, how)
        for count in counts:
            for draw in range(draws if count < len(sources) else 1):
                order = generator(SEED, "right", draw).permutation(len(sources))
                workspace.consumers.grant("consumer", sources=[sources[i] for i in order[:count].tolist()])
                reach = workspace.consumers.reach("consumer").to_json()
                dropped = workspace.evaluate("consumer")["accuracy"]
                start = time.perf_counter()
                groups = workspace.consumers.provision("consumer")
                seconds = time.perf_counter() - start
                shares = (reach["share_of_samples"], reach["share_of_adapters"])
                sizes = (count, len(sources), *shares)
                accuracy = workspace.evaluate("consumer")["accuracy"] if groups else dropped
                points.append(Point(name, graph, draw, *sizes, dropped, accuracy, groups, seconds))
                workspace.consumers.revoke("consumer")
    return points


def means(points: list[Point]) -> list[dict[str, Any]]:
    """Over the draws of equal rights."""
    alike: dict[tuple[str, str, int], list[Point]] = defaultdict(list)
    for point in points:
        alike[point.recipe, point.graph, point.sources].append(point)
    columns = ("share_of_samples", "share_of_adapters", "dropped", "provisioned", "groups", "seconds")
    return [
        {"recipe": name, "graph": graph, "sources": count, "of_sources": found[0].of_sources}
        | {column: statistics.mean(getattr(point, column) for point in found) for column in columns}
        for (name, graph, count), found in alike.items()
    ]


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """A panel a recipe, and the seconds beneath."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "shardgraph"
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["recipe"] for row in rows))
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(4.2 * (len(names) + 1), 3.6))
    for axis, name in zip(axes, names, strict=False):
        for graph, style in (("apart", "-"), ("cliques across domains", "--")):
            mine = [row for row in rows if (row["recipe"], row["graph"]) == (name, graph)]
            shares = [row["sources"] / row["of_sources"] for row in mine]
            axis.plot(shares, [row["dropped"] for row in mine], "o" + style, label=f"{graph}: adapters that are left")
            if any(row["groups"] for row in mine):
                axis.plot(shares, [row["provisioned"] for row in mine], "s" + style, label=f"{graph}: provisioned")
        axis.set(title=name, xlabel="share of sources", ylabel="accuracy on all test samples")
        axis.legend(fontsize=7)
    for name in names:
        mine = [row for row in rows if row["recipe"] == name and row["graph"] != "apart"]
        shares = [row["sources"] / row["of_sources"] for row in mine]
        axes[-1].plot(shares, [row["seconds"] for row in mine], "o-", label=name)
    axes[-1].set(title="provisioning, cliques across domains", xlabel="share of sources", ylabel="seconds")
    axes[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out / "alacarte.png", dpi=150)
    figure.savefig(out / "alacarte.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="a Parquet file with image, label, split and domain")
    parser.add_argument("--cache", type=Path, default=Path("alacarte.npz"), help="where the embeddings are kept")
    parser.add_argument("--limit", type=int, help="use at most so many images, drawn at random")
    parser.add_argument("--pieces", type=int, default=4, help="sources a domain")
    parser.add_argument("--draws", type=int, default=3, help="rights of every size")
    parser.add_argument("--embed-only", action="store_true", help="stop when the embeddings are there")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "alacarte")
    options = parser.parse_args()
    samples = cut(embedded(options.table, options.cache, options.limit), options.pieces)
    if options.embed_only:
        return
    sources = sorted(set(samples.sources))
    counts = sorted({1, 2, len(sources) // 4, len(sources) // 2, 3 * len(sources) // 4, len(sources)})
    points = [
        point
        for name, how in RECIPES.items()
        for graph, topology in graphs(sources).items()
        for point in measure(samples, name, how, graph, topology, options.draws, counts)
    ]
    rows = means(points)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "alacarte.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(points[0])))
        writer.writeheader()
        writer.writerows(asdict(point) for point in points)
    table = {"table": options.table.name, "samples": len(samples), "train": samples.splits.count("train")}
    facts = table | {"backbone": "efficientnet-lite0", "sources": len(sources), "draws": options.draws, "means": rows}
    (options.out / "alacarte.json").write_text(json.dumps(facts, indent=1) + "\n")
    draw(rows, options.out)
    print(f"{'recipe':24} {'graph':23} {'sources':>7} {'adapters':>8} {'left':>6} {'provis.':>7} {'groups':>6} seconds")
    for row in rows:
        name, graph, of = row["recipe"], row["graph"], f"{row['sources']}/{row['of_sources']}"
        accuracy = f"{row['dropped']:6.1%} {row['provisioned']:7.1%}"
        cost = f"{row['groups']:6.1f} {row['seconds']:7.2f}"
        print(f"{name:24} {graph:23} {of:>7} {row['share_of_adapters']:8.0%} {accuracy} {cost}")


if __name__ == "__main__":
    main()
