"""The pages with much behind them: how long the server takes for each, with 1,000 shards and 10,000 requests.

    python benchmarks/pages.py [--rounds 20] [--out results.json]

Samples are made here: 20,000 of 2 tokens x 16 in 10 classes, of 200 sources, in 250 groups of 4 shards, trained for one
epoch. Two requests are carried out; the past of the other 9,998 is written into the catalogue as a service would have
left it (queue, moves, 50,000 lines of the ledger), 200 of them waiting. One browser asks at a time, and nothing else
goes on. Prints lines `bench NAME RATIO WANTED`: the limit of 300 ms over the slowest answer of a page.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np

from shardgraph import Bilevel, ForgetRequest, Recipe, Samples, Workspace
from shardgraph.forget.queue.queue import Submission
from shardgraph.storage.catalogue import Catalogue

SAMPLES, TOKENS, DIM, CLASSES, SOURCES = 20_000, 2, 16, 10, 200
COARSE, FINE, REQUESTS, WAITING, LIMIT = 250, 4, 10_000, 200, 0.3
LATER = ("forget-twins", "right-reach")  # parts that a page asks for when it is there: they read every shard
PATH = ("received", "instant", "erasing", "retraining", "verified", "done")


def make() -> Samples:
    """Samples whose tokens lean towards their class; a hundredth is held out."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, DIM))
    labels = rng.integers(0, CLASSES, SAMPLES)
    tokens = (rng.standard_normal((SAMPLES, TOKENS, DIM), np.float32) + centres[labels][:, None]).astype(np.float16)
    return Samples(
        ids=tuple(f"s{i:06d}" for i in range(SAMPLES)),
        labels=tuple(f"k{label}" for label in labels),
        tokens=tokens.reshape(-1, DIM),
        offsets=np.arange(SAMPLES + 1, dtype=np.int64) * TOKENS,
        features=tokens.mean(axis=1, dtype=np.float32),
        sources=tuple(f"source-{i % SOURCES:03d}" for i in range(SAMPLES)),
        subjects=tuple(f"subject-{i % 5000:04d}" for i in range(SAMPLES)),
        splits=tuple("test" if i % 100 == 0 else "train" for i in range(SAMPLES)),
    )


def past(catalogue: Catalogue, waiting: list[str]) -> None:
    """Requests of the last year, most of them done; those that wait withhold a sample each."""
    start = datetime.now(UTC) - timedelta(days=365)
    sql = (
        "INSERT INTO requests (number, state, received, deadline, asker, reason, samples, wish, body, certificate)"
        " VALUES (?, ?, ?, ?, ?, '', 1, '{}', '', ?)"
    )
    with catalogue.transaction() as db:
        for number in range(3, REQUESTS + 1):
            done = number <= REQUESTS - WAITING
            received = start + timedelta(hours=number * 0.8)
            times = [(received + timedelta(seconds=i)).isoformat() for i in range(len(PATH))]
            deadline = (received + timedelta(days=30)).isoformat()
            state, certificate = ("done", 1 + number % 2) if done else ("instant", None)
            db.execute(sql, (number, state, times[0], deadline, f"asker-{number % 20}", certificate))
            walked = list(zip(PATH, times, strict=True))[: len(PATH) if done else 2]
            moves = [(number, state, time) for state, time in walked]
            db.executemany("INSERT INTO request_states (request, state, time) VALUES (?, ?, ?)", moves)
            lines = [
                (times[0], "received", json.dumps({"entry": number, "samples": 1})),
                (times[1], "instant", json.dumps({"entry": number, "state": "0" * 32})),
                (times[1], "serving", json.dumps({"state": f"{number:032x}", "adapters": 2500, "withheld": [number]})),
                (times[2], "accepted", json.dumps({"request": number, "samples": 1, "revisited": 80, "of": 19_800})),
                (times[5], "done", json.dumps({"request": number, "certificate": 1})),
            ]
            db.executemany("INSERT INTO ledger (time, event, detail) VALUES (?, ?, ?)", lines)
        held = [(sample, REQUESTS - i) for i, sample in enumerate(waiting)]
        db.executemany("INSERT INTO withheld VALUES (?, ?)", held)


def workspace(root: Path) -> None:
    """The workspace that is looked at."""
    samples = make()
    with Workspace.create(root, seed=1) as ws:
        ws.add(samples)
        ws.train(Bilevel(coarse=COARSE, fine=FINE), Recipe(epochs=1))
        ws.consumers.grant("acme", sources=[f"source-{i:03d}" for i in range(SOURCES // 2)])
        for name in samples.ids[1:3]:
            ws.queue.wait_for(ws.queue.submit(Submission(ForgetRequest(samples=(name,)))).number)
        past(ws.context.catalogue, [f"s{i:06d}" for i in range(101, 101 + WAITING) if i % 100])


class Service:
    """`shardgraph serve`; requests wait for an hour, so that nothing is carried out while pages are timed."""

    def __init__(self, root: Path) -> None:
        words = [sys.executable, "-m", "shardgraph.cli.main", "serve", str(root), "--port", "0", "--grace", "100000000"]
        self.log = root.parent / "log"
        self.process = subprocess.Popen(words, stderr=self.log.open("w"))
        port = self._port()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        while not self._ready():
            time.sleep(0.2)

    def _port(self) -> int:
        while self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.1)
        raise SystemExit(self.log.read_text())

    def _ready(self) -> bool:
        try:
            return self.client.get("/ready").status_code == 200
        except httpx.TransportError:
            return False


def pages(shard: str) -> dict[str, tuple[str, dict[str, str] | None]]:
    """Every page, and what is sent to it."""
    sample = {"kind": "sample", "name": '"s010101"'}
    return {
        "overview": ("/pages", None),
        "graph": ("/pages/graph", None),
        "graph-data": ("/pages/graph.json", None),
        "graph-shard": (f"/pages/graph/shard?name={shard}", None),
        "forget": ("/pages/forget", None),
        "forget-find": ("/pages/forget/find", {"kind": "subject", "wanted": "subject-0"}),
        "forget-preview": ("/pages/forget/preview", sample),
        "forget-twins": ("/pages/forget/preview", sample | {"look": "yes"}),
        "requests": ("/pages/requests", None),
        "requests-waiting": ("/pages/requests?state=instant", None),
        "request": (f"/pages/requests/{REQUESTS - 1}", None),
        "proof": ("/pages/proof", None),
        "certificate": ("/pages/proof/1", None),
        "verify": ("/pages/proof/1/verify", {}),
        "rights": ("/pages/rights", None),
        "right": ("/pages/rights/of?consumer=acme", None),
        "right-reach": ("/pages/rights/of?consumer=acme&reach=yes", None),
    }


def timed(client: httpx.Client, path: str, sent: dict[str, str] | None, rounds: int) -> list[float]:
    """Seconds of every answer, after one that is not counted."""
    found = re.search(r'name="csrf" value="([^"]+)"', client.get("/pages/forget").text)
    assert found is not None
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        if sent is None:
            answer = client.get(path)
        else:
            answer = client.post(path, data={"csrf": found.group(1), **sent}, follow_redirects=True)
        taken.append(time.perf_counter() - start)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[-500:])
    return sorted(taken[1:])


def main() -> None:
    """Build, serve, ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        workspace(root)
        service = Service(root)
        try:
            shard = service.client.get("/pages/graph.json").json()["groups"][0]["shards"][0][0]
            for name, (path, sent) in pages(shard).items():
                taken = timed(service.client, path, sent, args.rounds)
                report[name] = {"median_ms": round(1e3 * taken[len(taken) // 2]), "slowest_ms": round(1e3 * taken[-1])}
                print(name, report[name], flush=True)
        finally:
            service.process.terminate()
            service.process.wait()
    for name, one in report.items():
        if name in LATER:
            continue
        print(f"bench pages-{name} {1e3 * LIMIT / max(one['slowest_ms'], 1):.2f} 1")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
