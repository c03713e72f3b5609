"""A forget end to end (accepted, erased, retrained, swapped, certified) against full training, in one process.

    python benchmarks/forget.py [--out results.json] [--samples 8192]

256 groups (16 coarse x 16 fine) of made texts, 32 tokens x 384, 77 classes, 30 epochs. Prints
`bench forget-end-to-end RATIO 1`: (full training / 100 + 50 ms) over the median single-sample forget.
"""

import argparse
import cProfile
import json
import pstats
import tempfile
import time
from pathlib import Path

import numpy as np
from cpu import make

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--forgets", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    samples = make(args.samples)
    with tempfile.TemporaryDirectory() as folder, Workspace.create(Path(folder) / "ws", seed=1) as workspace:
        workspace.add(samples)
        start = time.perf_counter()
        manifest = workspace.train(Bilevel(16, 16))
        full = time.perf_counter() - start
        workspace.model()
        profile = cProfile.Profile()
        seconds = []
        for sample in samples.ids[:: args.samples // args.forgets][: args.forgets]:
            start = time.perf_counter()
            if args.profile:
                profile.enable()
            certificate = workspace.forget(ForgetRequest(samples=(sample,)))
            profile.disable()
            seconds.append(time.perf_counter() - start)
            assert certificate.event == "forget"
    if args.profile:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(45)
    median = float(np.median(seconds))
    report = {
        "samples": args.samples,
        "groups": len(manifest.groups),
        "full_seconds": full,
        "forget_seconds": seconds,
        "median_forget_seconds": median,
    }
    print(json.dumps(report, indent=1))
    print(f"bench forget-end-to-end {(full / 100 + 0.050) / median:.2f} 1")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
