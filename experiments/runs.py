"""Runs: train, measure, write down. A record is one line of JSON; what is written is not run again.

    python -m experiments.runs --cache CACHE --out experiments/results/runs

Tables and figures are made from these records alone, on any machine.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments import cache, paper
from experiments.cache import Data
from experiments.rivals import RIVALS, Fitted, Shape, fit
from shardgraph.data.samples import Samples, concatenate
from shardgraph.digest import generator
from shardgraph.graph import Bilevel
from shardgraph.learn.discriminant import PRIOR, discriminant
from shardgraph.learn.ensemble import Model, mixing_weight
from shardgraph.learn.prototypes import SCALE, Prototypes, describe, total
from shardgraph.learn.recipe import LINEAR, Recipe

SEEDS = (0, 1, 2)
STUDIES = ("instant", "fine", "domains", "others")
INSTANT, FINE = ("SAFE", "SISA", "ProtoSISA", "Ours"), ("NoprotoSAFE", "SAFE", "Ours")  # who is in these
ALONE = ("Prototypes", "Second order")
CHUNK = 512  # test samples in one pass
Record = dict[str, Any]


class Book:
    """Records in a file, found again by what they are about."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.records = [json.loads(line) for line in lines]

    def has(self, **about: Any) -> bool:
        """Whether there is a record about this."""
        return any(all(record.get(key) == value for key, value in about.items()) for record in self.records)

    def add(self, records: Iterable[Record]) -> None:
        """Write records down."""
        with self.path.open("a") as file:
            for record in records:
                self.records.append(record)
                file.write(json.dumps(record) + "\n")


class Bench:
    """A data set on a device, with what all its runs share."""

    def __init__(self, data: Data, device: str, recipe: Recipe | None = None) -> None:
        self.data, self.device, self.recipe = data, device, recipe or Recipe()
        self.prior = PRIOR

    @cached_property
    def first(self) -> Prototypes:
        """The paper's prototypes of the training split."""
        return total([self.data.train])

    @cached_property
    def second(self) -> Prototypes:
        """The second-order sums of the training split."""
        return total([self.data.train], second_order=True, expansion=self.recipe.expansion, device=self.device)

    @cached_property
    def similarities(self) -> dict[str, Tensor]:
        """What prototypes say about every test sample, by what a rival mixes in."""
        said = {mixes: self.similarity(self.sums(mixes), mixes) for mixes in ("first", "second")}
        return said | {"nothing": said["first"]}

    def similarity(self, sums: Prototypes, mixes: str) -> Tensor:
        """What these prototypes say about every test sample."""
        if mixes == "second":
            rule = discriminant(sums, self.recipe.shrinkage, self.prior)
            return self.described @ rule.weights + rule.biases
        unit = torch.nn.functional.normalize(torch.from_numpy(self.data.test.features), dim=1)
        return unit @ torch.from_numpy(sums.vectors()).T

    @cached_property
    def described(self) -> Tensor:
        """The test split as second-order prototypes see it."""
        expansion = self.recipe.expansion
        parts = _in_chunks(lambda part: torch.from_numpy(describe(part, expansion, self.device)), self.data.test)
        return parts.float() / SCALE

    def sums(self, mixes: str) -> Prototypes:
        """The prototypes for what a rival mixes in."""
        return self.second if mixes == "second" else self.first

    def train(self, shape: Shape, seed: int, recipe: Recipe | None = None) -> Fitted:
        """All groups of a bilevel graph; how they are mixed is decided later."""
        recipe = replace(recipe or self.recipe, method="safe")
        return fit(self.data.train, Bilevel(*shape, "balanced"), recipe, seed, self.device, self.first)

    def accuracy(self, scores: Tensor, classes: tuple[str, ...]) -> float:
        """Per cent of the test split that is told right."""
        wanted = {label: i for i, label in enumerate(classes)}
        truth = torch.tensor([wanted.get(label, -1) for label in self.data.test.labels])
        return 100 * float((scores.argmax(dim=1).cpu() == truth).double().mean())

    def mixed(self, fitted: Fitted, logits: Tensor, mixes: str) -> float:
        """The accuracy of trained groups under one way of mixing, from their mean logits."""
        recipe = next(rival for rival in RIVALS.values() if rival.mixes == mixes and rival.cut).recipe(self.recipe)
        weight = mixing_weight([(a.samples, len(a.classes)) for a in fitted.adapters.values()], recipe)
        model = replace(fitted.model, recipe=recipe, weight=weight)
        return self.accuracy(model.mix(logits, self.similarities[mixes]), model.classes)


def speak(fitted: Fitted, samples: Samples) -> Tensor:
    """The logits [n, A] of all adapters."""
    assert fitted.model.voices is not None
    return _in_chunks(fitted.model.voices, samples)


def mean_logits(fitted: Fitted, samples: Samples) -> Tensor:
    """The mean logits [n, K] of each class's adapters."""
    voices, average = fitted.model.voices, fitted.model.average
    assert voices is not None
    return _in_chunks(lambda part: voices(part) @ average, samples)


def asked(levels: Iterable[int]) -> list[tuple[str, int]]:
    """Who is trained at which level: No sharding, SISA, ProtoSISA, SAFE, NoprotoSAFE and ours."""
    sharded = ("SISA", "ProtoSISA", "SAFE", "NoprotoSAFE", "Ours")
    return [(name, n) for n in levels for name in (("No sharding", "Ceiling") if n == 1 else sharded)]


def graphs(bench: Bench, seed: int, who: Iterable[tuple[str, int]]) -> Iterator[Record]:
    """Rivals at their levels, from as few trainings as possible."""
    wanted: dict[Shape, list[tuple[str, int]]] = {}
    for name, n in who:
        shape = RIVALS[name].shape(splits(bench.data)[n])
        assert shape is not None
        wanted.setdefault(shape, []).append((name, n))
    for shape, here in wanted.items():
        start = time.perf_counter()
        fitted = bench.train(shape, seed)
        seconds = time.perf_counter() - start
        logits = mean_logits(fitted, bench.data.test)
        about = {"shape": shape, "seed": seed, "adapter": bench.recipe.adapter, "train_seconds": round(seconds, 3)}
        about |= {"cost": fitted.cost(), "samples": len(bench.data.train)}
        for name, n in here:
            yield about | {"rival": name, "n": n, "accuracy": bench.mixed(fitted, logits, RIVALS[name].mixes)}
        if seed == 0 and bench.recipe.adapter == "inca" and {("SAFE", 64), ("SAFE", 256)} & set(here):
            yield about | {"rival": "forget", "n": shape[0] * shape[1], "forgets": forgets(fitted)}


def alone(bench: Bench, who: Iterable[str] = ALONE) -> Iterator[Record]:
    """Prototypes, of first and second order, that no graph changes."""
    for name in who:
        mixes = RIVALS[name].mixes
        score = bench.accuracy(bench.similarities[mixes], bench.sums(mixes).classes)
        yield {"rival": name, "n": 0, "seed": 0, "adapter": "none", "accuracy": score, "cost": 0.0}


def forgets(fitted: Fitted, count: int = 5) -> list[Record]:
    """Samples forgotten one by one, each from the whole: what was read again, and what the graph said would be."""
    ids = [name for shard in fitted.shards.values() for name in shard.ids]
    chosen = generator(fitted.seed, "forgets").permutation(len(ids))[:count]
    rows = []
    for name in (ids[i] for i in chosen.tolist()):
        start = time.perf_counter()
        _, read = fitted.forget([name])
        seconds = round(time.perf_counter() - start, 4)
        rows.append({"predicted": fitted.cost(name), "measured": read, "seconds": seconds})
    return rows


def fine(bench: Bench, seed: int, n: int, who: Sequence[str]) -> Iterator[Record]:
    """n shards, cut ever finer by class."""
    for cliques in (2**i for i in range(n.bit_length()) if 2 ** (i + 1) <= len(bench.data.classes)):
        fitted = bench.train((n // cliques, cliques), seed)
        logits = mean_logits(fitted, bench.data.test)
        for name in who:
            score = bench.mixed(fitted, logits, RIVALS[name].mixes)
            yield {"rival": name, "n": n, "shape": (n // cliques, cliques), "seed": seed, "accuracy": score}


def instant(bench: Bench, seed: int, n: int, who: Sequence[str], steps: int = 16) -> Iterator[Record]:
    """Shards leave one after another, with every adapter that learned from them, and nothing is retrained."""
    bilevel = splits(bench.data)[n]
    for cut in sorted({RIVALS[name].cut or "" for name in who}):
        shape = bilevel if cut == "bilevel" else (n, 1)
        fitted = bench.train(shape, seed)
        logits = speak(fitted, bench.data.test).to(bench.device)
        owners = [(group, label) for group in sorted(fitted.adapters) for label in fitted.adapters[group].classes]
        order = [sorted(fitted.shards)[i] for i in generator(seed, "leaving").permutation(len(fitted.shards)).tolist()]
        sums = {"first": bench.first, "second": bench.second}
        for step in range(steps):
            gone = set(order[: len(order) * step // steps])
            leaving = [fitted.shards[name] for name in order[len(order) * max(step - 1, 0) // steps : len(gone)]]
            sums = {m: own.minus(concatenate(leaving), bench.device) if leaving else own for m, own in sums.items()}
            kept = {group: a for group, a in fitted.adapters.items() if group not in gone}
            columns = torch.tensor([i for i, (group, _) in enumerate(owners) if group in kept], device=logits.device)
            for rival in (RIVALS[name] for name in who if RIVALS[name].cut == cut):
                own = sums["second" if rival.mixes == "second" else "first"]
                scores = bench.similarity(own, rival.mixes)
                recipe = rival.recipe(bench.recipe)
                model = Model.assemble(kept, own, recipe, seed, "cpu", lambda asked, known=scores: known)
                said = logits[:, columns] @ model.average.to(logits)
                score = bench.accuracy(model.mix(said.cpu(), scores), model.classes)
                yield {"rival": rival.name, "n": n, "seed": seed, "gone": step / steps, "accuracy": score}


def splits(data: Data) -> dict[int, Shape]:
    """(n_c, n_f) at every level: the paper's for its data sets, one rule for the rest."""
    default = paper.SPLITS["mit67"] if len(data.classes) >= 32 else paper.SPLITS["pacs"]
    known = paper.SPLITS.get(data.name.split(" ")[0], default)
    return {1: (1, 1)} | dict(zip(paper.LEVELS, known, strict=True))


def _in_chunks(answer: Any, samples: Samples) -> Tensor:
    with torch.no_grad():
        starts = range(0, len(samples), CHUNK)
        return torch.cat([answer(samples.take(np.arange(s, min(s + CHUNK, len(samples))))) for s in starts])


# Linear adapters train on the CPU: one process a training, while the device is busy with the rest.


def _linear(job: tuple[int, tuple[int, ...]]) -> list[Record]:
    torch.set_num_threads(1)
    seed, levels = job
    return list(graphs(_bench, seed, asked(levels)))


_bench: Any = None


def _finished(waiting: Any) -> Iterator[list[Record]]:
    """The results that are there by now, so that a run that is stopped has written them down."""
    with suppress(TimeoutError, StopIteration):
        while True:
            yield waiting.next(timeout=0)


def run(
    data: Data,
    book: Book,
    device: str,
    levels: tuple[int, ...],
    linear: bool,
    studies: Iterable[str],
    seeds: Sequence[int] = SEEDS,
) -> None:
    """Everything about one data set that is not in the book yet."""
    global _bench
    start = time.perf_counter()
    recipe = replace(LINEAR, expansion=0)
    features = replace(data, train=_light(data.train), test=_light(data.test))
    _bench = Bench(features, "cpu", recipe)
    jobs = [(seed, (n,)) for n in levels[::-1] for seed in seeds if not book.has(adapter="linear", seed=seed, n=n)]
    jobs = jobs if linear else []
    with get_context("fork").Pool(max((os.cpu_count() or 2) - 4, 1)) as pool:  # forked before the device wakes up
        waiting = pool.imap_unordered(_linear, jobs)
        bench = Bench(data, device)
        book.add(list(alone(bench, [name for name in ALONE if not book.has(rival=name)])))
        for seed in seeds:
            left = [who for who in asked(levels) if not book.has(adapter="inca", seed=seed, rival=who[0], n=who[1])]
            book.add(list(graphs(bench, seed, left)))
            for study, take, n, everyone in (("instant", instant, levels[-1], INSTANT), ("fine", fine, 64, FINE)):
                who = [name for name in everyone if not book.has(study=study, seed=seed, rival=name)]
                if study in studies and who:
                    book.add([{"study": study, **record} for record in take(bench, seed, n, who)])
            if "others" in studies and not book.has(study="others", seed=seed):
                from experiments.others import others  # which is made of what is above

                book.add([{"study": "others", **record} for record in others(data, seed, device)])
            several = len(set(data.train.sources)) > 1
            if "domains" in studies and several and not book.has(study="domains", seed=seed):
                from experiments.domains import domains  # which is made of what is above

                book.add([{"study": "domains", **record} for record in domains(data, seed, device)])
            for records in _finished(waiting):
                book.add(records)
            took = time.perf_counter() - start
            print(f"{data.name} {data.backbone}: seed {seed} done, {took:.0f} s", file=sys.stderr, flush=True)
        for records in waiting:
            book.add(records)


def _light(samples: Samples) -> Samples:
    """Without tokens, which linear adapters do not look at."""
    n = len(samples)
    return replace(samples, tokens=np.zeros((n, 1), np.float16), offsets=np.arange(n + 1, dtype=np.int64))


def run_cache(folder: Path, out: Path) -> None:
    """Everything about every data set in a cache that is not written down yet."""
    out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in cache.names(folder):
        run(cache.load(folder, name), Book(out / f"{name}.jsonl"), device, (1, *paper.LEVELS), True, STUDIES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", help="a data set in the cache", action="append")
    parser.add_argument("--levels", type=int, nargs="+", default=(1, *paper.LEVELS))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--no-linear", action="store_true")
    parser.add_argument("--studies", nargs="*", default=STUDIES, help=f"of {', '.join(STUDIES)}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only or cache.names(options.cache):
        start = time.perf_counter()
        data, book = cache.load(options.cache, name), Book(options.out / f"{name}.jsonl")
        run(data, book, options.device, tuple(options.levels), not options.no_linear, options.studies, options.seeds)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
