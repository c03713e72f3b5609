"""Runs: train, measure, record. A record is one line of JSON; what is recorded is not run again.

    python -m experiments.runs --cache CACHE --out experiments/results/runs

Tables and figures are made from these records alone, on any machine.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from experiments.cache import HELD_OUT, Data
from experiments.command import run_command
from experiments.recordfile import Record, RecordFile
from experiments.rivals import RIVALS, Fitted, Shape, fit
from shardgraph.digest import generator
from shardgraph.graph import Bilevel
from shardgraph.learn.discriminant import PRIOR, discriminant
from shardgraph.learn.ensemble import Model
from shardgraph.learn.prototypes import SCALE, Prototypes, describe, total
from shardgraph.learn.recipe import LINEAR, Recipe, mixing_weight
from shardgraph.storage.samples import Samples, concatenate

SEEDS = (0, 1, 2)
STUDIES = ("instant", "fine", "domains", "others")
INSTANT, FINE = ("SAFE", "SISA", "ProtoSISA", "Ours"), ("NoprotoSAFE", "SAFE", "Ours")  # the methods in these studies
ALONE = ("Prototypes", "Second order")
CHUNK = 512  # test samples in one pass
STEPS = 16  # in which shards leave
Shards = Mapping[str, Samples]
Who = list[tuple[str, int]]  # rivals, and how many shards they have


class Setup:
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
        """The prototypes' scores of every test sample, by what a rival mixes in."""
        found = {mixes: self.similarity(self.sums(mixes), mixes) for mixes in ("first", "second")}
        return found | {"nothing": found["first"]}

    def similarity(self, sums: Prototypes, mixes: str) -> Tensor:
        """The scores of these prototypes for every test sample."""
        if mixes == "second":
            rule = discriminant(sums, self.recipe.shrinkage, self.prior)
            return self.described @ rule.weights + rule.biases
        unit = torch.nn.functional.normalize(torch.from_numpy(self.data.test.features), dim=1)
        return unit @ torch.from_numpy(sums.vectors()).T

    @cached_property
    def described(self) -> Tensor:
        """The test split as second-order prototypes describe it."""
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
        """Per cent of the test split that is predicted correctly."""
        wanted = {label: i for i, label in enumerate(classes)}
        truth = torch.tensor([wanted.get(label, -1) for label in self.data.test.labels])
        return 100 * float((scores.argmax(dim=1).cpu() == truth).double().mean())

    def mixed(self, fitted: Fitted, logits: Tensor, mixes: str) -> float:
        """The accuracy of trained groups under one way of mixing, from their mean logits."""
        recipe = next(rival for rival in RIVALS.values() if rival.mixes == mixes and rival.cut).recipe(self.recipe)
        weight = mixing_weight([(a.samples, len(a.classes)) for a in fitted.adapters.values()], recipe)
        model = replace(fitted.model, recipe=recipe, weight=weight)
        return self.accuracy(mixed_scores(model, logits, self.similarities[mixes]), model.classes)


def adapter_logits(fitted: Fitted, samples: Samples) -> Tensor:
    """The logits [n, A] of all adapters."""
    logits = fitted.model.adapter_logits
    return torch.zeros(len(samples), 0) if logits is None else _in_chunks(logits, samples)


def mean_logits(fitted: Fitted, samples: Samples) -> Tensor:
    """The mean logits [n, K] of each class's adapters."""
    logits, average = fitted.model.adapter_logits, fitted.model.average
    if logits is None:
        return torch.zeros(len(samples), average.shape[1])
    return _in_chunks(lambda part: logits(part) @ average, samples)


def mixed_scores(model: Model, logits: Tensor, similarity: Tensor) -> Tensor:
    """The scores [n, K]: adapters and prototypes mixed, or prototypes alone where there is no adapter."""
    return model.mix(logits, similarity) if bool(model.has_adapter.any()) else similarity


def methods_at(levels: Iterable[int]) -> Who:
    """The methods that are trained at each level: No sharding, SISA, ProtoSISA, SAFE, NoprotoSAFE and ours."""
    sharded = ("SISA", "ProtoSISA", "SAFE", "NoprotoSAFE", "Ours")
    return [(name, n) for n in levels for name in (("No sharding", "Ceiling") if n == 1 else sharded)]


def graphs(setup: Setup, seed: int, who: Iterable[tuple[str, int]]) -> Iterator[Record]:
    """Rivals at their levels, from as few trainings as possible."""
    wanted: dict[Shape, Who] = {}
    for name, n in who:
        shape = RIVALS[name].shape(splits(setup.data)[n])
        assert shape is not None
        wanted.setdefault(shape, []).append((name, n))
    for shape, here in wanted.items():
        start = time.perf_counter()
        fitted = setup.train(shape, seed)
        seconds = time.perf_counter() - start
        logits = mean_logits(fitted, setup.data.test)
        about = {"shape": shape, "seed": seed, "adapter": setup.recipe.adapter, "train_seconds": round(seconds, 3)}
        about |= {"cost": fitted.cost(), "samples": len(setup.data.train)}
        if seed == 0 and setup.recipe.adapter == "inca" and {("SAFE", 64), ("SAFE", 256)} & set(here):
            measured = {"n": shape[0] * shape[1], "device": setup.device, "forgets": forgets(fitted)}
            yield about | {"rival": "forget"} | measured  # before the records that mark this shape as done
        for name, n in here:
            yield about | {"rival": name, "n": n, "accuracy": setup.mixed(fitted, logits, RIVALS[name].mixes)}


def alone(setup: Setup, who: Iterable[str] = ALONE) -> Iterator[Record]:
    """Prototypes, of first and second order, that no graph changes."""
    for name in who:
        mixes = RIVALS[name].mixes
        score = setup.accuracy(setup.similarities[mixes], setup.sums(mixes).classes)
        yield {"rival": name, "n": 0, "seed": 0, "adapter": "none", "accuracy": score, "cost": 0.0}


def forgets(fitted: Fitted, count: int = 5) -> list[Record]:
    """Samples forgotten one by one, each from the whole: what was read again, and what the graph predicts."""
    ids = [name for shard in fitted.shards.values() for name in shard.ids]
    chosen = generator(fitted.seed, "forgets").permutation(len(ids))[:count]
    rows = []
    for name in (ids[i] for i in chosen.tolist()):
        start = time.perf_counter()
        _, read = fitted.forget([name])
        seconds = round(time.perf_counter() - start, 4)
        rows.append({"predicted": fitted.cost(name), "measured": read, "seconds": seconds})
    return rows


def finer(data: Data, n: int) -> list[Shape]:
    """n shards, cut ever finer by class, while a clique has two classes."""
    return [(n // 2**i, 2**i) for i in range(n.bit_length()) if 2 ** (i + 1) <= len(data.classes)]


def fine(setup: Setup, seed: int, n: int, who: Sequence[str]) -> Iterator[Record]:
    """Accuracy at every such cut."""
    for shape in finer(setup.data, n):
        fitted = setup.train(shape, seed)
        logits = mean_logits(fitted, setup.data.test)
        for name in who:
            score = setup.mixed(fitted, logits, RIVALS[name].mixes)
            yield {"rival": name, "n": n, "shape": shape, "seed": seed, "accuracy": score}


def instant(setup: Setup, seed: int, n: int, who: Sequence[str], steps: int = STEPS) -> Iterator[Record]:
    """Shards leave one after another, with every adapter that learned from them, and nothing is retrained."""
    bilevel = splits(setup.data)[n]
    for cut in sorted({RIVALS[name].cut or "" for name in who}):
        fitted = setup.train(bilevel if cut == "bilevel" else (n, 1), seed)
        logits = adapter_logits(fitted, setup.data.test).to(setup.device)
        owners = [(group, label) for group in sorted(fitted.adapters) for label in fitted.adapters[group].classes]
        for step, (left, sums) in enumerate(leaving(setup, fitted.shards, seed, steps)):
            kept = {group: a for group, a in fitted.adapters.items() if group in left}
            left_over = [i for i, (group, _) in enumerate(owners) if group in kept]
            columns = torch.tensor(left_over, dtype=torch.long, device=logits.device)
            for rival in (RIVALS[name] for name in who if RIVALS[name].cut == cut):
                own = sums["second" if rival.mixes == "second" else "first"]
                scores = setup.similarity(own, rival.mixes)
                recipe = rival.recipe(setup.recipe)
                model = Model.assemble(kept, own, recipe, seed, "cpu", _constant(scores))
                mean = logits[:, columns] @ model.average.to(logits)
                score = setup.accuracy(mixed_scores(model, mean.cpu(), scores), model.classes)
                yield {"rival": rival.name, "n": n, "seed": seed, "gone": step / steps, "accuracy": score}


def leaving(setup: Setup, shards: Shards, seed: int, steps: int) -> Iterator[tuple[Shards, dict[str, Prototypes]]]:
    """At every step the shards that are left, and the prototypes from which those that left were subtracted."""
    names = sorted(shards)
    order = [names[i] for i in generator(seed, "leaving").permutation(len(names)).tolist()]
    sums, gone = {"first": setup.first, "second": setup.second}, 0
    for step in range(steps):
        now = len(order) * step // steps
        parts = [shards[name] for name in order[gone:now]]
        sums = {m: own.minus(concatenate(parts), setup.device) if parts else own for m, own in sums.items()}
        gone = now
        yield {name: shards[name] for name in order[gone:]}, sums


def splits(data: Data) -> dict[int, Shape]:
    """(n_c, n_f) at every level: the paper's for its data sets, one rule for the rest."""
    default = paper.SPLITS["mit67"] if len(data.classes) >= 32 else paper.SPLITS["pacs"]
    known = paper.SPLITS.get(data.name.removesuffix(HELD_OUT), default)
    return {1: (1, 1)} | dict(zip(paper.LEVELS, known, strict=True))


def _constant(scores: Tensor) -> Callable[[Samples], Tensor]:
    """A function that gives these scores for any samples."""
    return lambda samples: scores


def _in_chunks(function: Callable[[Samples], Tensor], samples: Samples) -> Tensor:
    with torch.no_grad():
        starts = range(0, len(samples), CHUNK)
        return torch.cat([function(samples.take(np.arange(s, min(s + CHUNK, len(samples))))) for s in starts])


# Linear adapters train on the CPU: one process a training, while the device is busy with the rest.


def _linear(job: tuple[int, Who]) -> list[Record]:
    torch.set_num_threads(1)
    return list(graphs(_setup, *job))


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_setup: Any = None


def _finished(waiting: Any) -> Iterator[list[Record]]:
    """The results that are ready, so that an interrupted run has recorded them."""
    with suppress(TimeoutError, StopIteration):
        while True:
            yield waiting.next(timeout=0)


def run(
    data: Data,
    file: RecordFile,
    device: str,
    levels: tuple[int, ...],
    linear: bool,
    studies: Iterable[str],
    seeds: Sequence[int] = SEEDS,
) -> None:
    """Run and record everything about one data set that is not recorded yet."""
    global _setup
    start = time.perf_counter()
    recipe = replace(LINEAR, expansion=0)
    features = replace(data, train=_light(data.train), test=_light(data.test))
    _setup = Setup(features, "cpu", recipe)
    jobs = [(seed, left) for n in levels[::-1] for seed in seeds if (left := _left(file, "linear", seed, (n,)))]
    jobs = [job for job in jobs if linear and any(RIVALS[name].mixes != "second" for name, _ in job[1])]
    count = max((os.cpu_count() or 2) - 4, 1)
    with get_context("fork").Pool(count, _ignore_interrupt) as pool:  # forked before the device is initialised
        waiting = pool.imap_unordered(_linear, jobs)
        setup = Setup(data, device)
        file.add(alone(setup, [name for name in ALONE if not file.has(rival=name)]))
        for seed in seeds:
            file.add(graphs(setup, seed, _left(file, "inca", seed, levels)))
            for study in (study for study in STUDIES if study in studies):
                found = _study(study, setup, file, seed, levels[-1])
                file.add({"study": study, **record} for record in found)
            for records in _finished(waiting):
                file.add(records)
            took = time.perf_counter() - start
            print(f"{data.name} {data.backbone}: seed {seed} done, {took:.0f} s", file=sys.stderr, flush=True)
        for records in waiting:
            file.add(records)


def _left(file: RecordFile, adapter: str, seed: int, levels: Iterable[int]) -> Who:
    return [(name, n) for name, n in methods_at(levels) if not file.has(adapter=adapter, seed=seed, rival=name, n=n)]


def _study(study: str, setup: Setup, file: RecordFile, seed: int, most: int) -> Iterator[Record]:
    """A study of one seed, for the rivals of which something is missing."""
    from experiments import domains, others  # a cycle: they use this module

    about = {"study": study, "seed": seed}
    if study == "instant":
        steps = [step / STEPS for step in range(STEPS)]
        who = [name for name in INSTANT if not all(file.has(**about, rival=name, gone=gone) for gone in steps)]
        return instant(setup, seed, most, who)
    if study == "fine":
        shapes = [list(shape) for shape in finer(setup.data, 64)]
        who = [name for name in FINE if not all(file.has(**about, rival=name, shape=shape) for shape in shapes)]
        return fine(setup, seed, 64, who) if who else iter(())
    if study == "others":
        missing = not all(file.has(**about, rival=name) for name in others.WHO[1:3])
        return others.others(setup.data, seed, setup.device) if missing else iter(())
    missing = not all(file.has(**about, rival=name) for name in domains.NAMES)
    several = len(set(setup.data.train.sources)) > 1
    return domains.domains(setup.data, seed, setup.device) if missing and several else iter(())


def _light(samples: Samples) -> Samples:
    """The samples without tokens, which linear adapters do not use."""
    n = len(samples)
    return replace(samples, tokens=np.zeros((n, 1), np.float16), offsets=np.arange(n + 1, dtype=np.int64))


def run_cache(folder: Path, out: Path) -> None:
    """Run and record everything about every data set in a cache that is not recorded yet."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in cache.usable(folder):
        run(cache.load(folder, name), RecordFile(out / f"{name}.jsonl"), device, (1, *paper.LEVELS), True, STUDIES)


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
    for name in cache.usable(options.cache, options.only):
        start = time.perf_counter()
        data, file = cache.load(options.cache, name), RecordFile(options.out / f"{name}.jsonl")
        run(data, file, options.device, tuple(options.levels), not options.no_linear, options.studies, options.seeds)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    run_command(main)
