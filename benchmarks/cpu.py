"""Training on the CPU: ours against the paper's masked training and against a plain loop of autograd steps.

    python benchmarks/cpu.py [--out results.json] [--samples 4096]

Data is made here: texts of 32 tokens x 384 in 77 classes, 64 groups (8 coarse x 8 fine), 30 epochs. Masked training
and the autograd loop are timed for one epoch and multiplied. Prints lines `bench NAME RATIO WANTED`.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from experiments import masked
from shardgraph.digest import digest
from shardgraph.graph import Bilevel
from shardgraph.learn import inca
from shardgraph.learn.executors import Executor, GroupTask, ProcessExecutor, SerialExecutor
from shardgraph.learn.group import batches, initial_parameters, loss_value
from shardgraph.learn.inca import frozen_attention
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples, pack_samples

TOKENS, DIM, CLASSES, SEED = 32, 384, 77, 1


def make(count: int) -> Samples:
    """Samples whose tokens are shifted a little towards a centre of their class."""
    rng = np.random.default_rng(0)
    centres = 0.03 * rng.standard_normal((CLASSES, DIM))
    labels = rng.integers(0, CLASSES, count)
    tokens = np.empty((count, TOKENS, DIM), np.float16)
    for rows in np.array_split(np.arange(count), -(-count // 512)):
        tokens[rows] = rng.standard_normal((len(rows), TOKENS, DIM), np.float32) + centres[labels[rows]][:, None]
    return Samples(
        ids=tuple(f"s{i:06d}" for i in range(count)),
        labels=tuple(f"k{label:02d}" for label in labels),
        tokens=tokens.reshape(-1, DIM),
        offsets=np.arange(count + 1, dtype=np.int64) * TOKENS,
        features=tokens.mean(axis=1, dtype=np.float32),
    )


def shard(samples: Samples, coarse: int, fine: int) -> dict[str, Samples]:
    """The shards of a bilevel topology."""
    classes = tuple(sorted(set(samples.labels)))
    places = Bilevel(coarse, fine).place_all(samples.ids, samples.sources, samples.labels, seed=SEED, classes=classes)
    rows: dict[str, list[int]] = {}
    for row, place in enumerate(places):
        rows.setdefault(place, []).append(row)
    return {name: samples.take(chosen).canonical() for name, chosen in sorted(rows.items())}


def write_tasks(shards: dict[str, Samples], folder: Path, recipe: Recipe) -> list[GroupTask]:
    """Tasks as a workspace would make them."""
    tasks = []
    for i, (name, samples) in enumerate(shards.items()):
        raw = pack_samples(samples)
        path = folder / f"{i}.shard"
        path.write_bytes(raw)
        (folder / f"{i}.model").touch()
        tasks.append(
            GroupTask(name, ((str(path), digest(raw)),), (), recipe.to_json(), SEED, str(folder / f"{i}.model"))
        )
    return tasks


def timed_run(executor: Executor, tasks: list[GroupTask]) -> tuple[float, list[str]]:
    """Seconds and digests of training all tasks."""
    start = time.perf_counter()
    found = {result.name: result.digest for result in executor.run(tasks)}
    return time.perf_counter() - start, [found[task.name] for task in tasks]


def autograd_epoch(shards: dict[str, Samples], recipe: Recipe) -> float:
    """Seconds for one epoch of the usual loop: autograd and torch.optim.AdamW, group after group, two threads."""
    start = time.perf_counter()
    for name, samples in shards.items():
        classes = tuple(sorted(set(samples.labels)))
        attention = frozen_attention(DIM, recipe, SEED)
        keys = inca.project(samples, attention)
        targets = torch.tensor([classes.index(label) for label in samples.labels])
        q, v = (x.clone().requires_grad_() for x in initial_parameters(name, classes, DIM, SEED).view(2, -1, DIM))
        optimiser = torch.optim.AdamW([q, v], lr=recipe.lr, weight_decay=recipe.weight_decay)
        for lr, chosen in list(batches(name, len(samples), recipe, SEED))[: -(-len(samples) // recipe.batch)]:
            rows = torch.from_numpy(chosen)
            optimiser.param_groups[0]["lr"] = lr
            optimiser.zero_grad()
            logits = masked.logits(q, v, keys.take(rows), attention)
            torch.autograd.backward(loss_value(logits, targets[rows], recipe.loss, False))
            optimiser.step()
    return time.perf_counter() - start


def masked_epoch(samples: Samples, shards: dict[str, Samples], recipe: Recipe) -> float:
    """Seconds for one epoch of masked training: every sample with every adapter."""
    attention = frozen_attention(DIM, recipe, SEED)
    adapters = [(name, label) for name, part in shards.items() for label in sorted(set(part.labels))]
    shard_of = {sample: name for name, part in shards.items() for sample in part.ids}
    positive = torch.tensor([[label == k for k in samples.labels] for _, label in adapters])
    access = torch.tensor([[shard_of[i] == name for i in samples.ids] for name, _ in adapters])
    problem = masked.MaskedProblem(inca.project(samples, attention), positive, access, attention)
    q, v = torch.randn(len(adapters), DIM), torch.randn(len(adapters), DIM)
    start = time.perf_counter()
    masked.train_masked(q, v, problem, epochs=1, batch=256, lr=0.01, weight_decay=1e-4, seed=SEED)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, default=4096)
    args = parser.parse_args()
    recipe = Recipe()
    samples = make(args.samples)
    shards = shard(samples, 8, 8)
    with tempfile.TemporaryDirectory() as folder:
        tasks = write_tasks(shards, Path(folder), recipe)
        one, first = timed_run(SerialExecutor(), tasks)
        two, second = timed_run(ProcessExecutor(2), tasks)
    loop = recipe.epochs * autograd_epoch(shards, recipe)
    joint = recipe.epochs * masked_epoch(samples, shards, recipe)
    report = {
        "samples": args.samples,
        "groups": len(shards),
        "serial_seconds": one,
        "two_workers_seconds": two,
        "autograd_seconds": loop,
        "masked_seconds": joint,
        "equal_digests": first == second,
    }
    print(json.dumps(report, indent=1))
    print(f"bench cpu-full-over-masked {joint / two:.1f} 30")
    print(f"bench cpu-full-over-autograd-loop {loop / two:.1f} 4")
    print(f"bench cpu-equal-digests-1-and-2-workers {int(first == second)} 1")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
