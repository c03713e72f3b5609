"""Forgetting one sample: ours beside what a user would pick instead. Same machine, same embeddings, same run.

    python benchmarks/rivals.py [--out results.json] [--samples 6000]

* shardgraph: a workspace of 256 groups, the forget end to end with erasure and certificate
* full retrain: one unsharded group of the same adapters, trained again without the sample
* LogisticRegression: scikit-learn, refit on the pooled features without the sample

Prints a table of seconds to forget one sample and accuracy after it, and
`bench forget-over-logistic-regression RATIO 1`. (torchunlearn 0.1.0, the release on PyPI, has no SISA to compare with.)
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from cpu import make
from sklearn.linear_model import LogisticRegression

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import train_group
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import TEST, TRAIN, Samples


def ours(samples: Samples, sample: str) -> tuple[float, float]:
    """Seconds of a forget in a running process, and accuracy after it."""
    with tempfile.TemporaryDirectory() as folder, Workspace.create(Path(folder) / "ws", seed=1) as workspace:
        workspace.add(samples)
        workspace.train(Bilevel(16, 16))
        start = time.perf_counter()
        workspace.forget(ForgetRequest(samples=(sample,)))
        return time.perf_counter() - start, workspace.evaluate()["accuracy"]


def full_retrain(train: Samples, test: Samples) -> tuple[float, float]:
    """Seconds to train one group on everything that is retained, and its accuracy."""
    recipe = Recipe(prototypes=False)
    classes = tuple(sorted(set(train.labels)))
    start = time.perf_counter()
    adapters = train_group("all", train, classes, recipe, 1)
    seconds = time.perf_counter() - start
    found = Model.assemble({"all": adapters}, total([train]), recipe, 1).predict(test)
    return seconds, float(np.mean([a == b for a, b in zip(found, test.labels, strict=True)]))


def logistic(train: Samples, test: Samples) -> tuple[float, float]:
    """Seconds to refit scikit-learn's LogisticRegression on pooled features, and its accuracy."""
    start = time.perf_counter()
    model = LogisticRegression(max_iter=1000).fit(train.features, train.labels)
    return time.perf_counter() - start, float(model.score(test.features, test.labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, default=6000)
    args = parser.parse_args()
    samples = make(args.samples)
    splits = tuple(TEST if i % 5 == 0 else TRAIN for i in range(len(samples)))
    samples = replace(samples, splits=splits)
    gone = next(i for i, split in enumerate(splits) if split == TRAIN)
    train = samples.take([i for i, split in enumerate(splits) if split == TRAIN and i != gone]).canonical()
    test = samples.take([i for i, split in enumerate(splits) if split == TEST])
    found = {
        "shardgraph, 256 groups": ours(samples, samples.ids[gone]),
        "full retrain": full_retrain(train, test),
        "LogisticRegression refit": logistic(train, test),
    }
    for name, (seconds, accuracy) in found.items():
        print(f"{name:26} {seconds:9.3f} s   accuracy after {accuracy:.3f}")
    print(json.dumps({name: {"seconds": s, "accuracy": a} for name, (s, a) in found.items()}, indent=1))
    mine = found["shardgraph, 256 groups"][0]
    print(f"bench forget-over-logistic-regression {found['LogisticRegression refit'][0] / mine:.2f} 1")
    print(f"bench forget-over-full-retrain {found['full retrain'][0] / mine:.2f} 1")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
