"""Several domains: shards that stay within a domain, or that learn across them, at the same cost of forgetting.

    shardgraph experiment domains

The paper's table on DomainNet-126, here on PACS and on any data with several sources: domains of equal size, classes
balanced, as many shards within domains as across them (16 a domain), n_f <= 2.
Expect: SAFE above SISA, and cross-domain above in-domain, as in the paper.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments import paper
from experiments.cache import Data
from experiments.recordfile import Record
from experiments.records import Records, title
from experiments.result import COLOURS, Result, Table, panels, panels_size, spread
from experiments.rivals import fit
from experiments.runs import mean_logits, mixed_scores
from shardgraph.digest import keyed_hash
from shardgraph.graph import Bilevel, BilevelAcross, BySourceBilevel, Topology
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

EACH = 16  # shards a domain
NAMES = tuple(f"{who} {where}" for where in ("in-domain", "cross-domain") for who in ("SISA", "SAFE", "Ours"))


def graphs(domains: int) -> dict[str, tuple[Topology, str]]:
    """Every graph for so many domains, and what is mixed in; all have EACH shards or cliques a domain."""
    half, all_of_them = EACH // 2, EACH * domains
    within = BySourceBilevel(EACH, 1, "balanced"), BySourceBilevel(half, 2, "balanced")
    across = Bilevel(all_of_them, 1, "balanced"), BilevelAcross(all_of_them // 2, 2, "balanced")
    shapes = [shape for sisa, safe in (within, across) for shape in (sisa, safe, safe)]
    return dict(zip(NAMES, zip(shapes, ("nothing", "first", "second") * 2, strict=True), strict=True))


def domains(data: Data, seed: int, device: str) -> Iterator[Record]:
    """Every graph on domains of equal size, accuracy on all of them and on each."""
    train, test = balanced(data.train, seed), balanced(data.test, seed)
    truth, sources = np.array(test.labels), np.array(test.sources)
    for name, (topology, mixes) in graphs(len(set(train.sources))).items():
        method = "second" if mixes == "second" else "safe"
        recipe = Recipe(name=name, method=method, prototypes=mixes != "nothing")
        fitted = fit(train, topology, recipe, seed, device)
        model = fitted.model
        scores = mixed_scores(model, mean_logits(fitted, test), model.similarity(test))
        right = np.array(model.classes)[scores.argmax(dim=1).numpy()] == truth
        each = {domain: 100 * float(right[sources == domain].mean()) for domain in sorted(set(sources.tolist()))}
        yield {
            "rival": name,
            "seed": seed,
            "accuracy": 100 * float(right.mean()),
            "domains": each,
            "cost": fitted.cost(),
            "train": len(train),
            "test": len(test),
        }


def balanced(samples: Samples, seed: int) -> Samples:
    """As many samples of every class in every domain as the rarest of them has, drawn by hash."""
    cells: dict[tuple[str, str], list[int]] = {}
    for i, cell in enumerate(zip(samples.sources, samples.labels, strict=True)):
        cells.setdefault(cell, []).append(i)
    size = min(map(len, cells.values()))
    drawn = [sorted(own, key=lambda i: keyed_hash(seed, "balanced", samples.ids[i]))[:size] for own in cells.values()]
    return samples.take(sorted(i for own in drawn for i in own))


def show(records: Records) -> Result:
    """The paper's table: all domains, and each."""
    sets = [name for name in records.sets if any(records.of(name, study="domains"))]
    tables = [_table(records, name) for name in sets]
    columns = ["graph", "all", "clipart", "sketch", "real", "painting"]
    rows = [[name, *values] for name, values in paper.DOMAINS.items()]
    tables.append(Table("paper, ViT-L/16, DomainNet-126", columns, rows))
    counts = {len(record["domains"]) for name in sets for record in records.of(name, study="domains")}
    shards = f"{EACH * min(counts)} shards in all" if len(counts) == 1 else f"{EACH} shards a domain"
    about = (
        "Test accuracy in per cent, mean and standard deviation over seeds; domains of equal size, classes balanced, "
        f"{shards}."
    )
    if any(name.startswith("pacs--") for name in sets):
        about += (
            " PACS stands in for DomainNet-126, which cannot be shipped: seven classes instead of 126, so a clique "
            "cannot be cut finer than in two."
        )
    return Result("domains", about, tables, lambda figure: _draw(figure, records, sets), panels_size(len(sets), 5, 3.5))


def _table(records: Records, name: str) -> Table:
    found = {graph: list(records.of(name, study="domains", rival=graph)) for graph in NAMES}
    parts = list(found["SISA in-domain"][0]["domains"])
    rows = []
    for graph, own in found.items():
        each = [spread([record["domains"][part] for record in own]) for part in parts]
        rows.append([graph, spread([record["accuracy"] for record in own]), *each, f"{own[0]['cost']:.1f}"])
    some = found["SISA in-domain"][0]
    heading = f"{title(name)}; {some['train']} training and {some['test']} test samples"
    return Table(heading, ["graph", "all", *parts, "samples read per forget"], rows)


def _draw(figure: Any, records: Records, sets: list[str]) -> None:
    for axes, name in panels(figure, sets):
        means = {}
        for graph in NAMES:
            own = [record["accuracy"] for record in records.of(name, study="domains", rival=graph)]
            means[graph] = sum(own) / len(own)
        colours = [COLOURS[graph.split(" ")[0]] for graph in means]
        axes.barh(list(means)[::-1], list(means.values())[::-1], color=colours[::-1])
        axes.set_title(title(name), fontsize=9)
        axes.set_xlabel("test accuracy, %")
