"""How long looking for twins among 60,000 samples takes: 1280 features each, planted twins, all of them found.

    python benchmarks/twins.py [--samples 60000] [--out results.json]

The last line is `bench twins-60000-in-60s RATIO 1`: RATIO is 60 over the seconds, so 1 or more is in time.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from shardgraph.forget.erase.twins import THRESHOLD, near_pairs, unit_rows

FEATURES, PLANTED = 1280, 200


def planted(count: int) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """Features at random, half of them shared by all as in a real network's, and the pairs that are twins."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(count, FEATURES)).astype(np.float32)
    features += rng.normal(size=FEATURES).astype(np.float32)
    places = rng.permutation(count)[: 2 * PLANTED].reshape(PLANTED, 2)
    noise = 0.1 * rng.normal(size=(PLANTED, FEATURES)).astype(np.float32)
    features[places[:, 1]] = features[places[:, 0]] + noise * (np.arange(PLANTED) % 2)[:, None]
    return features, {(min(a, b), max(a, b)) for a, b in places.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    features, expected = planted(given.samples)
    start = time.perf_counter()
    found = near_pairs(unit_rows(features), THRESHOLD)
    seconds = time.perf_counter() - start
    assert {(i, j) for i, j, _ in found} == expected, "every planted twin is found, and no other pair"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts = {"samples": given.samples, "pairs": len(found), "seconds": seconds, "peak_mb": peak}
    print(json.dumps(facts))
    print(f"bench twins-{given.samples}-in-60s {60 / seconds:.2f} 1")
    if given.out:
        given.out.write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
