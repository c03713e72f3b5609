"""Throughput of embedding, decoding included, against the bare network's forward passes in the same run.

    python benchmarks/embedding.py [--rounds 3] [--json FILE]

Prints `bench NAME RATIO WANTED` a line: samples a second through `embed` (decode or tokenise, pass,
collect), over samples a second through the network alone on the same inputs, prepared beforehand, with
the same batch shapes and as many passes side by side. After a round that does not count, rounds
alternate, also in which of them is first, and the median ratio counts, so that a busy machine slows both
alike. The JSON also has `ratio_processor`, of processor seconds, which other
programs disturb less, and `ratio_to_plain`: against what one would write without us, batches of 32 one after
the other, each with all threads.
"""

import argparse
import io
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.backbones.decoders import exact_numerics, one_thread
from shardgraph.embedding.backbones.registry import load_backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.records import Payload, Record

WANTED = 0.8
_SPEECH = "when will my new card arrive I sent a transfer but it is not there please help with the exchange rate"


def jpegs(n: int) -> list[bytes]:
    """n JPEGs of about 200 x 200 pixels."""
    rng, files = np.random.default_rng(0), []
    for _ in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (25, 25, 3), dtype=np.uint8))
        width, height = rng.integers(180, 221, 2).tolist()
        file = io.BytesIO()
        coarse.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=85)
        files.append(file.getvalue())
    return files


def sentences(n: int) -> list[str]:
    """n texts of 4 to 30 words, most of them short."""
    rng, words = np.random.default_rng(0), _SPEECH.split()
    return [" ".join(rng.choice(words, size=4 + int(rng.gamma(2.0, 4.0)) % 27)) for _ in range(n)]


def batches(backbone: Backbone, payloads: Sequence[Payload]) -> list[torch.Tensor]:
    """The network's input as `embed` would batch it."""
    buckets = defaultdict(list)
    for payload in payloads:
        sample = backbone.prepare(payload)
        buckets[backbone.bucket(sample)].append(sample)
    with exact_numerics():
        rows = {bucket: backbone.rows(bucket) for bucket in buckets}
    return [
        backbone.stack(samples[i : i + rows[bucket]])
        for bucket, samples in buckets.items()
        for i in range(0, len(samples), rows[bucket])
    ]


def bare(backbone: Backbone, inputs: list[torch.Tensor]) -> None:
    """Every batch through the network, as many side by side as there are cores, and nothing else."""

    def one(batch: torch.Tensor) -> None:
        one_thread()
        with torch.inference_mode():
            backbone.forward(batch)

    with exact_numerics(), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, inputs))


def plain(backbone: Backbone, inputs: list[torch.Tensor]) -> None:
    """Every batch through the network, one after the other, each with all threads."""
    with torch.inference_mode():
        for batch in inputs:
            backbone.forward(batch)


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds that some work takes."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def compare(backbone: Backbone, payloads: Sequence[Payload], rounds: int) -> dict[str, list[float]]:
    """Samples a second (wall, processor) of embedding, bare passes and plain batches of 32; a value a round."""
    records = [Record(str(i), "x", payload) for i, payload in enumerate(payloads)]
    n, inputs, found = len(records), batches(backbone, payloads), defaultdict(list)
    shapes: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)
    for batch in inputs:
        shapes[batch.shape[1:]].extend(batch.unbind())
    wide = [torch.stack(rows[i : i + 32]) for rows in shapes.values() for i in range(0, len(rows), 32)]
    works = {
        "bare": lambda: bare(backbone, inputs),
        "embed": lambda: list(embed(records, backbone)),
        "plain": lambda: plain(backbone, wide),
    }
    for turn in range(rounds + 1):
        for name in sorted(works, reverse=turn % 2 == 0):
            wall, processor = seconds(works[name])
            if turn:
                found[name].append(n / wall)
                found[f"{name}_processor"].append(n / processor)
    return dict(found)


def ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = {}
    for name, spec, payloads in (
        ("embedding_images", "efficientnet-lite0", jpegs(256)),
        ("embedding_texts", "minilm", sentences(4096)),
    ):
        found = compare(load_backbone(spec, device="cpu"), payloads, options.rounds)
        report[name] = {
            "wanted": WANTED,
            "ratio": ratio(found["embed"], found["bare"]),
            "ratio_processor": ratio(found["embed_processor"], found["bare_processor"]),
            "ratio_to_plain": ratio(found["embed"], found["plain"]),
            **{f"{kind}_per_second": round(statistics.median(found[kind]), 1) for kind in ("embed", "bare", "plain")},
        }
        print("bench", name, report[name]["ratio"], WANTED, flush=True)
    text = json.dumps(report, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
