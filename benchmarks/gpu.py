"""Training and forgetting on one GPU, against the paper's masked training in the same run.

    PYTHONPATH=src python benchmarks/gpu.py --out results.json

50,000 samples x 197 tokens x 1024, 16 heads, 256 groups, about 1,600 adapters, 30 epochs. Keys are made on the
device (the figures are about training, not about copying). Prints lines `bench NAME RATIO WANTED`.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from shardgraph.digest import digest
from shardgraph.learn.cuda.training import KeysOnDevice, Launch, shape_of, train_groups
from shardgraph.learn.group import GroupInputs, train_group
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples


def synthetic(samples: int, groups: int, classes: int, per_group: int, tokens: int, seed: int = 0) -> list[GroupInputs]:
    """Groups with labels and lengths but without tokens: their keys are made on the device."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, groups, samples)
    found = []
    for g in range(groups):
        n = int((owner == g).sum())
        names = [f"k{(g * per_group + i) % classes:03d}" for i in range(per_group + (g % 4 == 0))]
        labels = tuple(names[i % len(names)] for i in rng.permutation(n))
        ids = tuple(f"{g}-{i:06d}" for i in range(n))
        offsets = np.arange(n + 1, dtype=np.int64) * tokens
        empty = np.zeros((0, 1), np.float16)
        part = Samples(ids, labels, empty, offsets, np.zeros((n, 1), np.float32))
        found.append(GroupInputs(f"g{g:04d}", part, tuple(sorted(set(labels)))))
    return found


def random_keys(samples: int, heads: int, tokens: int, width: int) -> KeysOnDevice:
    """Keys as if laid out from normalised tokens."""
    generator = torch.Generator("cuda").manual_seed(1)
    keys = torch.empty(samples, heads, tokens, width, dtype=torch.float16, device="cuda")
    for part in torch.split(keys, 1000):
        part.normal_(generator=generator)
    return KeysOnDevice(keys, torch.full((samples,), tokens, dtype=torch.int32, device="cuda"))


def timed(action: Callable[[], object]) -> float:
    """Seconds, with the device idle before and after."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    action()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def subset(groups: list[GroupInputs], keys: KeysOnDevice, chosen: list[int]) -> tuple[list[GroupInputs], KeysOnDevice]:
    """Some of the groups, with their keys."""
    ends = np.cumsum([0, *(len(g.samples) for g in groups)])
    rows = torch.cat([torch.arange(ends[i], ends[i + 1]) for i in chosen]).cuda()
    return [groups[i] for i in chosen], KeysOnDevice(keys.keys[rows], keys.lengths[rows])


def digests(launch: Launch) -> list[str]:
    """The digest of every group's adapters."""
    return [digest(params.cpu().numpy().tobytes()) for params in launch.params]


def masked_epoch(keys: KeysOnDevice, adapters: int, batch: int = 256, steps: int = 20) -> float:
    """Seconds for one epoch of masked training, as in the paper: every sample with every adapter."""
    n, heads, _, width = keys.keys.shape
    dim = heads * width
    q = torch.randn(adapters, dim, device="cuda", requires_grad=True)
    v = torch.randn(adapters, dim, device="cuda", requires_grad=True)
    optimiser = torch.optim.AdamW([q, v], lr=1e-3, fused=True)
    access = torch.rand(batch, adapters, device="cuda") < 1 / 256
    hot = (torch.rand(batch, adapters, device="cuda") < 0.1).float()

    def step() -> None:
        rows = torch.randint(0, n, (batch,), device="cuda")
        k = keys.keys[rows].bfloat16()
        query = torch.nn.functional.layer_norm(q, (dim,)).bfloat16().view(1, adapters, heads, width).transpose(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(query.expand(batch, -1, -1, -1), k, k)
        e = torch.nn.functional.layer_norm(out.transpose(1, 2).flatten(2), (dim,))
        y = torch.einsum("bmd,md->bm", e, v.bfloat16()).float()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(y, hot, reduction="none")
        torch.autograd.backward((loss * access).sum())
        optimiser.step()
        optimiser.zero_grad()

    def run() -> None:
        for _ in range(steps):
            step()

    for _ in range(3):
        step()
    return timed(run) / steps * -(-n // batch)


def check_small() -> dict[str, float]:
    """The kernels against the CPU's closed form, on small inputs through the public function."""
    rng = np.random.default_rng(0)
    found = {}
    losses: tuple[Literal["ce", "bce"], ...] = ("ce", "bce")
    for loss in losses:
        for tokens, dim, classes in ((49, 320, 7), (5, 64, 20), (197, 192, 3)):
            n = 90
            lengths = np.full(n, tokens) if tokens == 49 else rng.integers(1, tokens + 1, n)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            labels = tuple(f"k{i:02d}" for i in rng.integers(0, classes, n))
            parts = rng.standard_normal((offsets[-1], dim)).astype(np.float16)
            samples = Samples(tuple(f"{i:03d}" for i in range(n)), labels, parts, offsets, np.zeros((n, 1), np.float32))
            recipe = Recipe(epochs=3, batch=32, loss=loss)
            names = tuple(sorted(set(labels)))
            here = next(train_groups([GroupInputs("g", samples, names)], recipe, 1))
            there = train_group("g", samples, names, recipe, 1)
            gap = np.linalg.norm(here.first - there.first) / np.linalg.norm(there.first)
            found[f"{loss} {tokens}x{dim} C={classes}"] = float(gap)
    return found


def check_waves() -> dict[str, Any]:
    """The executor on shard files: everything in one wave, and in many waves under a small cap."""
    from cpu import make, shard, write_tasks

    from shardgraph.learn.executors.gpu import GpuExecutor

    shards = {name: part for name, part in shard(make(4096), 8, 8).items() if len(set(part.labels)) > 1}
    with tempfile.TemporaryDirectory() as folder:
        tasks = write_tasks(shards, Path(folder), Recipe())
        size = sum(Path(path).stat().st_size for task in tasks for path, _ in task.members)
        found, seconds = [], []
        for memory in (None, size // 5):
            start = time.perf_counter()
            found.append({result.name: result.digest for result in GpuExecutor(memory).run(tasks)})
            seconds.append(time.perf_counter() - start)
    return {"groups": len(tasks), "equal": found[0] == found[1], "seconds_one_wave_and_nine": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, default=50_000)
    args = parser.parse_args()
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "samples": args.samples,
    }
    report["relative_gap_to_cpu"] = check_small()
    print("gap to CPU", report["relative_gap_to_cpu"], flush=True)
    report["waves"] = check_waves()
    print("waves", report["waves"], flush=True)
    recipe = Recipe(batch=32)
    groups = synthetic(args.samples, 256, 100, 6, 197)
    keys = random_keys(args.samples, 16, 197, 64)
    shapes = sorted({shape_of(group) for group in groups})
    assert len(shapes) == 1, shapes
    whole = Launch(groups, shapes[0], recipe, 1, keys, "cuda")
    report["adapters"] = sum(len(group.classes) for group in groups)
    report["steps"] = whole.steps
    whole.run()  # compile
    full = []
    for _ in range(3):
        whole = Launch(groups, shapes[0], recipe, 1, keys, "cuda")
        full.append(timed(whole.run))
    report["full_seconds"] = full
    start = time.perf_counter()
    Launch(groups, shapes[0], recipe, 1, keys, "cuda")
    torch.cuda.synchronize()
    report["full_setup_seconds"] = time.perf_counter() - start
    expected = digests(whole)
    seven, few = subset(groups, keys, [3, 11, 50, 77, 128, 200, 255])
    some = Launch(seven, shapes[0], recipe, 1, few, "cuda")
    some.run()
    alone, own = subset(groups, keys, [77])
    single, launches = [], list[Launch]()

    def forget() -> None:
        launches.append(Launch(alone, shapes[0], recipe, 1, own, "cuda"))
        launches[-1].run()

    for _ in range(5):
        launches.clear()
        single.append(timed(forget))
    report["one_group_seconds"] = single
    report["equal_digests"] = digests(launches[0])[0] == expected[77] == digests(some)[3] and digests(some) == [
        expected[i] for i in (3, 11, 50, 77, 128, 200, 255)
    ]
    print(
        {k: report[k] for k in ("full_seconds", "full_setup_seconds", "one_group_seconds", "equal_digests")}, flush=True
    )
    report["kernels"] = profile(whole)
    report["masked_seconds"] = 30 * masked_epoch(keys, report["adapters"])
    report["floor_seconds"] = 2 * keys.keys.nbytes * 30 / 4.3e12
    print(json.dumps(report, indent=1))
    best = sorted(full)[1]
    print(f"bench gpu-full-over-masked {report['masked_seconds'] / best:.1f} 80")
    print(f"bench gpu-full-1.2s {1.2 / best:.2f} 1")
    print(f"bench gpu-one-group-40ms {0.040 / sorted(single)[2]:.2f} 1")
    print(f"bench gpu-equal-digests {int(report['equal_digests'])} 1")
    print(f"bench gpu-waves-equal-digests {int(report['waves']['equal'])} 1")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


def profile(launch: Launch) -> dict[str, float]:
    """Microseconds per step of every kernel."""
    launch.step.zero_()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(20):
            launch._step()
        torch.cuda.synchronize()
    return {e.key[:40]: e.device_time_total / 20 for e in found.key_averages() if e.device_time_total > 0}


if __name__ == "__main__":
    main()
