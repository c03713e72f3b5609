"""What two looks at the model tell about a forgotten sample: a differencing attack on our own service, over HTTP.

    python benchmarks/differencing.py [--trials 30] [--probes 150] [--out results.json]

The service runs as a process on 300 of scikit-learn's digits (64 features each). In every trial the attacker sends the
same random probes before and after one forget request of somebody else, and sees scores. A probe has random features
and tokens that are the same in all probes, so that the adapters add a constant. For every class, least squares gives
the direction in which its score grows; what changed in these directions, apart from their length, is the attack.

With the prototypes of the paper (`--method safe`) the class whose direction changed most is the class of the sample,
and the change is the sample's deviation from the mean of its class. With the prototypes of the default recipe
(`--method second`) the change is that deviation in the metric of the samples' covariance: the attacker compares it with
the candidates of a list that it holds, and the best of them names the class.

Prints one line of JSON for each method, and a line `differencing METHOD ...` with its figures in words.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.datasets import load_digits

from shardgraph import Bilevel, Recipe, Samples, Workspace

COUNT, SPREAD, RIDGE, SEED = 300, 0.3, 0.05, 0
Method = Literal["safe", "second"]
METHODS: tuple[Method, ...] = ("safe", "second")
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Digits:
    """The samples: unit vectors [n, 64] and their classes [n]."""

    features: Array
    classes: Array

    @classmethod
    def load(cls) -> "Digits":
        pictures, classes = load_digits(return_X_y=True)
        features = pictures[:COUNT] / np.linalg.norm(pictures[:COUNT], axis=1, keepdims=True)
        return cls(features.astype(np.float32), classes[:COUNT])

    @property
    def deviations(self) -> Array:
        """How far every sample is from the mean of its class [n, 64]."""
        means = np.array([self.features[self.classes == k].mean(axis=0) for k in range(10)])
        found: Array = self.features - means[self.classes]
        return found

    def to_samples(self) -> Samples:
        return Samples(
            ids=tuple(f"digit-{i:03d}" for i in range(COUNT)),
            labels=tuple(f"k{k}" for k in self.classes),
            tokens=self.features.astype(np.float16),
            offsets=np.arange(COUNT + 1, dtype=np.int64),
            features=self.features,
        )


@dataclass(frozen=True)
class Guess:
    """What the attacker concludes: the class, and a direction with how well every candidate agrees with it."""

    label: int
    cosines: Array  # [n]


class Service:
    """The service as a process, and plain HTTP to it."""

    def __init__(self, root: Path) -> None:
        self._log = root.parent / "service.log"
        words = [sys.executable, "-m", "shardgraph.cli.main", "serve", str(root), "--port", "0"]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(words, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self._port = self._until_listening()
        while not self._ready():
            time.sleep(0.1)

    def _until_listening(self) -> int:
        while self.process.poll() is None:
            for line in self._log.read_text().splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.1)
        raise SystemExit(self._log.read_text())

    def _ready(self) -> bool:
        try:
            return bool(self.call("/ready")["ready"])
        except OSError:
            return False

    def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, headers)
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def forget(self, sample: str) -> None:
        number = self.call("/requests", {"samples": [sample]})["number"]
        while (state := self.call(f"/requests/{number}")["state"]) != "done":
            assert state != "failed", "the request failed"
            time.sleep(0.05)

    def scores(self, probes: Array, token: Array) -> Array:
        """The score of every class for every probe [n, 10]."""
        tokens = [[token.tolist()]] * len(probes)
        body = {"features": probes.tolist(), "tokens": tokens, "top": 10}
        found = np.zeros((len(probes), 10))
        for row, one in enumerate(self.call("/predictions", body)["predictions"]):
            for entry in one["top"]:
                found[row, int(entry["label"][1:])] = entry["score"]
        return found


def directions(probes: Array, scores: Array) -> Array:
    """By class, the direction in which its score grows [10, 64], by least squares."""
    unit = probes / np.linalg.norm(probes, axis=1, keepdims=True)
    design = np.hstack([unit - unit.mean(axis=0), np.ones((len(unit), 1))])
    found: Array = np.linalg.lstsq(design, scores, rcond=None)[0][:-1].T
    return found


def guess(method: Method, before: Array, after: Array, digits: Digits) -> Guess:
    """What the change of the directions says, apart from the change of their lengths."""
    change = before - after
    shares = (change * before).sum(axis=1) / (before * before).sum(axis=1)
    change = change - shares[:, None] * before
    candidates = digits.deviations
    if method == "safe":
        label = int(np.linalg.norm(change, axis=1).argmax())
        return Guess(label, _cosines(candidates, change[label]))
    within = candidates.T @ candidates / len(candidates)
    shrunk = within + RIDGE * np.trace(within) / len(within) * np.eye(len(within))
    common = np.linalg.svd(change, full_matrices=False)[2][0]  # its sign is not known
    cosines = np.abs(_cosines(np.linalg.solve(shrunk, candidates.T).T, common))
    return Guess(int(digits.classes[cosines.argmax()]), cosines)


def measure(method: Method, trials: int, probes: int) -> dict[str, Any]:
    """The figures of one method; every trial forgets another sample of the same workspace."""
    digits, rng = Digits.load(), np.random.default_rng(SEED)
    right, first, cosines = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "ws")
        with Workspace.create(root, seed=SEED) as workspace:
            workspace.add(digits.to_samples())
            workspace.train(Bilevel(4, 1), Recipe(method=method, epochs=3))
        service = Service(root)
        try:
            for victim in rng.choice(COUNT, trials, replace=False).tolist():
                centre, token = rng.standard_normal((2, 64))
                random = rng.standard_normal((probes, 64))
                sent = centre / np.linalg.norm(centre) + SPREAD * random / np.linalg.norm(random, axis=1, keepdims=True)
                before = directions(sent, service.scores(sent, token))
                service.forget(f"digit-{victim:03d}")
                found = guess(method, before, directions(sent, service.scores(sent, token)), digits)
                same = digits.classes == digits.classes[victim]
                right += bool(found.label == digits.classes[victim])
                first += bool(found.cosines[victim] == found.cosines[same].max())
                cosines.append(float(found.cosines[victim]))
        finally:
            service.process.terminate()
            service.process.wait(60)
    shown = {"least": min(cosines), "median": float(np.median(cosines)), "most": max(cosines)}
    return {"method": method, "trials": trials, "probes": probes, "class": right, "first": first, "cosine": shown}


def _cosines(rows: Array, direction: Array) -> Array:
    found: Array = rows @ direction / np.linalg.norm(rows, axis=1) / np.linalg.norm(direction)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--probes", type=int, default=150)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = [measure(method, given.trials, given.probes) for method in METHODS]
    for facts in found:
        print(json.dumps(facts))
        cosine, of = facts["cosine"], facts["trials"]
        print(
            f"differencing {facts['method']}: the class {facts['class']} of {of}, the sample first of its class "
            f"{facts['first']} of {of}, cosine {cosine['least']:.2f} to {cosine['most']:.2f}, "
            f"median {cosine['median']:.3f}"
        )
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
