"""A service as people run it: a process, on a free port, that can be killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

import shardgraph

COMMAND = [sys.executable, "-m", "shardgraph.cli.main"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(shardgraph.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


class Process:
    """`shardgraph serve` on a workspace; its log is kept."""

    def __init__(self, root: Path, *options: str, port: int = 0) -> None:
        words = [*COMMAND, "serve", str(root), "--port", str(port), *options]
        self._process = subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        self.log: list[dict] = []
        self.port = self._find_port()
        threading.Thread(target=self._read, daemon=True).start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=120)

    def _find_port(self) -> int:
        said = []
        for line in self._process.stderr:
            said.append(line)
            if line.startswith("{") and json.loads(line)["event"] == "listening":
                return json.loads(line)["port"]
        raise RuntimeError(f"the service did not start: {''.join(said)}")

    def _read(self) -> None:
        for line in self._process.stderr:
            self.log.append(json.loads(line) if line.startswith("{") else {"event": "text", "line": line})

    def until_ready(self, seconds: float = 240) -> "Process":
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.client.get("/ready").status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise TimeoutError("the service did not get ready")

    def until_done(self, numbers: list[int], seconds: float = 300) -> list[dict]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = [self.client.get(f"/requests/{number}").json() for number in numbers]
            if all(one["state"] in ("done", "failed", "cancelled") for one in found):
                return found
            time.sleep(0.1)
        raise TimeoutError(f"still not done: {[one['state'] for one in found]}")

    def kill(self) -> None:
        """As `kill -9` does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.client.close()

    def end(self) -> int:
        """As `kill` does; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        self.client.close()
        return self._process.wait(60)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
