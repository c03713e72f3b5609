"""The service under load on loopback: predictions at a steady rate while forget requests come in.

    python benchmarks/service.py [--rate 200] [--forgets 100] [--seconds 60] [--out results.json]

Data is made here: 4,000 samples of 8 tokens x 384 in 20 classes, 32 groups (8 coarse x 4 fine). The service, its worker
and this client share the machine's cores. Predictions are sent open loop, one sample each: a late answer delays no
other call. Afterwards every prediction's state id is looked up in the ledger: one that was sent after a request had
been accepted must have been made in a state without that request's data. Prints lines `bench NAME RATIO WANTED`.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from shardgraph import Bilevel, Recipe, Samples, Workspace

TOKENS, DIM, CLASSES, SAMPLES, SEED = 8, 384, 20, 4000, 1
WANTED_RATE, CONNECTIONS = 200, 32
IDLE = 2.0  # seconds after which a connection is not used again: the service closes it after five


def make(count: int) -> Samples:
    """Samples whose tokens lean towards their class."""
    rng = np.random.default_rng(0)
    centres = 0.2 * rng.standard_normal((CLASSES, DIM))
    labels = rng.integers(0, CLASSES, count)
    tokens = (rng.standard_normal((count, TOKENS, DIM), np.float32) + centres[labels][:, None]).astype(np.float16)
    return Samples(
        ids=tuple(f"s{i:06d}" for i in range(count)),
        labels=tuple(f"k{label:02d}" for label in labels),
        tokens=tokens.reshape(-1, DIM),
        offsets=np.arange(count + 1, dtype=np.int64) * TOKENS,
        features=tokens.mean(axis=1, dtype=np.float32),
        sources=tuple(f"source-{i % 50}" for i in range(count)),
    )


class Service:
    """The service as a process, and plain HTTP to it."""

    def __init__(self, root: Path) -> None:
        words = [sys.executable, "-m", "shardgraph.cli.main", "serve", str(root), "--port", "0"]
        self._log = (root.parent / "service.log").open("w+")
        self.process = subprocess.Popen(words, stderr=self._log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.port = self._until_listening()
        while not self._ready():
            time.sleep(0.1)

    def _until_listening(self) -> int:
        while self.process.poll() is None:
            for line in Path(self._log.name).read_text().splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.1)
        raise SystemExit(Path(self._log.name).read_text())

    def _ready(self) -> bool:
        try:
            return bool(self.get("/ready")["ready"])
        except OSError:
            return False

    def get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def ledger(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.get(f"/ledger?after={after}&limit=1000")
            lines, after = lines + page["lines"], page["next"]
        return lines


class Connections:
    """Keep-alive connections that are handed round."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: asyncio.LifoQueue[tuple[float, Any]] = asyncio.LifoQueue()
        for _ in range(CONNECTIONS):
            self._free.put_nowait((0.0, None))

    async def post(self, path: str, body: bytes, kind: str) -> tuple[int, dict[str, Any]]:
        used, pair = await self._free.get()
        if pair and time.perf_counter() - used > IDLE:
            pair[1].close()
            pair = None
        reader, writer = pair or await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        first = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[16:]) for line in first.lower().split(b"\r\n") if line.startswith(b"content-length: "))
        answer = json.loads(await reader.readexactly(length))
        self._free.put_nowait((time.perf_counter(), (reader, writer)))
        return int(first.split(b" ", 2)[1]), answer


async def load(
    service: Service, bodies: list[bytes], ids: list[str], args: argparse.Namespace
) -> tuple[list[Any], list[Any]]:
    """Send predictions at a rate and forget requests spread over the time; (sent, answered, state) and tickets."""
    wires, predictions, tickets = Connections(service.port), [], []
    start = time.perf_counter() + 0.5

    async def predict(i: int) -> None:
        due = start + i / args.rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        status, answer = await wires.post("/predictions/arrays", bodies[i % len(bodies)], "application/octet-stream")
        assert status == 200, answer
        predictions.append((due, sent, time.perf_counter(), answer["state"]))

    async def forget(i: int) -> None:
        due = start + (i + 0.5) * args.seconds / args.forgets
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        status, answer = await wires.post("/requests", json.dumps({"samples": [ids[i]]}).encode(), "application/json")
        assert status == 202, answer
        tickets.append((answer["number"], time.perf_counter(), time.perf_counter() - sent))

    calls = [predict(i) for i in range(int(args.rate * args.seconds))] + [forget(i) for i in range(args.forgets)]
    await asyncio.gather(*calls)
    return predictions, tickets


def contaminated(ledger: list[dict[str, Any]], predictions: list[Any], tickets: list[Any]) -> tuple[int, int]:
    """(predictions made in a state before that of a request accepted before they were sent, pairs looked at)."""
    states = {line["detail"]["state"]: line["number"] for line in ledger if line["event"] == "serving"}
    clean = {line["detail"]["entry"]: states[line["detail"]["state"]] for line in ledger if line["event"] == "instant"}
    wrong = pairs = 0
    for _, sent, _, state in predictions:
        needed = [clean[number] for number, accepted, _ in tickets if accepted < sent]
        pairs += len(needed)
        wrong += any(states[state] < number for number in needed)
    return wrong, pairs


def quantiles(values: list[float]) -> dict[str, float]:
    """Median, p99 and maximum, in milliseconds."""
    found = np.quantile(values, [0.5, 0.99, 1.0]) * 1000
    return dict(zip(("p50_ms", "p99_ms", "max_ms"), found.round(2).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=WANTED_RATE)
    parser.add_argument("--forgets", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    samples = make(SAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        with Workspace.create(root, seed=SEED) as workspace:
            workspace.add(samples)
            workspace.train(Bilevel(coarse=8, fine=4), Recipe(epochs=5))
        rows = [samples.take([i]) for i in range(200)]
        bodies = [save({"tokens": row.tokens[None], "features": row.features}) for row in rows]
        ids = random.Random(SEED).sample(samples.ids, args.forgets)
        service = Service(root)
        try:
            predictions, tickets = asyncio.run(load(service, bodies, ids, args))
            while any(service.get(f"/requests/{n}")["state"] not in ("done", "failed") for n, _, _ in tickets):
                time.sleep(0.2)
            found = [service.get(f"/requests/{number}") for number, _, _ in tickets]
            wrong, pairs = contaminated(service.ledger(), predictions, tickets)
        finally:
            service.process.terminate()
            service.process.wait()
        with Workspace(root) as workspace:
            verified = workspace.verify().ok
    done = sum(one["state"] == "done" for one in found)
    span = max(answered for _, _, answered, _ in predictions) - min(due for due, _, _, _ in predictions)
    rate = len(predictions) / span
    report = {
        "predictions": len(predictions),
        "rate": round(rate, 1),
        "prediction": quantiles([answered - sent for _, sent, answered, _ in predictions]),
        "prediction_since_due": quantiles([answered - due for due, _, answered, _ in predictions]),
        "accepting": quantiles([seconds for _, _, seconds in tickets]),
        "time_to_forget": quantiles([_seconds(one["history"]) for one in found]),
        "requests": len(tickets),
        "done": done,
        "certificates": len({one["certificate"] for one in found}),
        "states": len({state for *_, state in predictions}),
        "pairs_checked": pairs,
        "contaminated": wrong,
        "verified": verified,
    }
    print(json.dumps(report, indent=1))
    print(f"bench service-predictions-per-second {rate / WANTED_RATE:.3f} 1")
    print(f"bench service-requests-done {done / args.forgets:.2f} 1")
    print(f"bench service-uncontaminated {1.0 if not wrong and verified else 0.0} 1")
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


def _seconds(history: list[dict[str, Any]]) -> float:
    first, last = (np.datetime64(history[i]["time"].rstrip("Z")) for i in (0, -1))
    return float((last - first) / np.timedelta64(1, "s"))


if __name__ == "__main__":
    main()
