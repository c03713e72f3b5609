"""What 1,600 adapters add to the backbone's own time, for one sample and for a batch.

    python benchmarks/inference.py [--out results.json]       EfficientNet-Lite0 on the CPU
    python benchmarks/inference.py --device cuda              ViT-L/16 (random weights) on a GPU

Prints lines `bench NAME RATIO WANTED`: a tenth of the backbone's time over the adapters' time, at least 1.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shardgraph.learn.ensemble import PackedAdapters
from shardgraph.learn.inca import frozen_attention
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

ADAPTERS = 1600


def medians(actions: Sequence[Callable[[], object]], repeats: int, device: str) -> list[float]:
    """Median seconds of each action; they take turns, so that a busy moment of the machine meets them alike."""
    found: list[list[float]] = [[] for _ in actions]
    for i in range(repeats + 2):
        for own, action in zip(found, actions, strict=True):
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            action()
            if device == "cuda":
                torch.cuda.synchronize()
            own += [time.perf_counter() - start] if i > 1 else []
    return [float(np.median(own)) for own in found]


def lite0() -> tuple[Callable[[int], object], int, int]:
    """EfficientNet-Lite0 one image at a time, as embedding does it; its tokens and dimensions."""
    from shardgraph.embedding.backbones.registry import load_backbone

    backbone = load_backbone("efficientnet-lite0", device="cpu")
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 255, (1, 224, 224, 3), dtype=np.uint8))
    return lambda batch: [backbone.forward(pixels) for _ in range(batch)], 49, 320


def vit_large() -> tuple[Callable[[int], object], int, int]:
    """ViT-L/16's blocks with random weights in bfloat16; its tokens and dimensions."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, activation="gelu", batch_first=True, norm_first=True)
    blocks = torch.nn.TransformerEncoder(layer, 24, enable_nested_tensor=False).cuda().bfloat16().eval()
    return lambda batch: blocks(torch.randn(batch, 197, 1024, device="cuda", dtype=torch.bfloat16)), 197, 1024


def logits_of(packed: PackedAdapters, samples: Samples) -> Callable[[], object]:
    """The adapters' pass over samples whose keys are computed beforehand."""
    if packed.fused:
        return partial(packed.logits_fused, packed.keys_fused(samples))
    return partial(packed.logits_of, packed.keys(samples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    backbone, tokens, dim = lite0() if args.device == "cpu" else vit_large()
    q, v = torch.randn(ADAPTERS, dim, device=args.device), torch.randn(ADAPTERS, dim, device=args.device)
    packed = PackedAdapters.pack(q, v, frozen_attention(dim, Recipe(), 1))
    report: dict[str, Any] = {"device": args.device, "adapters": ADAPTERS}
    with torch.inference_mode():
        for batch in (1, 256):
            values = np.random.default_rng(1).standard_normal((batch * tokens, dim)).astype(np.float16)
            offsets = np.arange(batch + 1, dtype=np.int64) * tokens
            samples = Samples(("",) * batch, ("",) * batch, values, offsets, np.zeros((batch, 1), np.float32))
            repeats = 100 if batch == 1 else 30 if args.device == "cuda" else 3
            own, added = medians([partial(backbone, batch), logits_of(packed, samples)], repeats, args.device)
            report[f"batch_{batch}"] = {"backbone_seconds": own, "adapters_seconds": added}
            print(f"bench inference-{args.device}-batch-{batch} {own / 10 / added:.2f} 1", flush=True)
    print(json.dumps(report, indent=1))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
