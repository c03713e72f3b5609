"""kill -9 of the service under load: what was accepted is completed once, whatever happened in between."""

import random
import threading
import time

import httpx
import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.storage.tables.requests import withheld_ids
from tests.service.processes import Process
from tests.strategies import LABELS, QUICK, embed, many, never_saw, promised_files

ROWS = many(900)


class Crowd:
    """People who ask to be forgotten, each under a key of their own, and ask again when nobody answered."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.left = [row.id for row in self.draw.sample(ROWS, 700)]
        self.accepted: dict[str, int] = {}
        self.unanswered: list[str] = []

    def ask(self, client: httpx.Client) -> None:
        sample = self.unanswered.pop() if self.unanswered else self.left.pop()
        self.unanswered.append(sample)  # until it is answered
        answer = client.post("/requests", json={"samples": [sample]}, headers={"Idempotency-Key": sample})
        self.unanswered.remove(sample)
        assert answer.status_code in (202, 503), answer.text
        if answer.status_code == 503:
            self.unanswered.append(sample)
        else:
            number = answer.json()["number"]
            assert self.accepted.setdefault(sample, number) == number

    def press(self, service: Process, seconds: float) -> None:
        """Ask and predict until the time is up, then kill the service in the middle of it."""
        timer = threading.Timer(seconds, service.kill)
        timer.start()
        query = {"features": [[0.5] * 8]}
        try:
            while timer.is_alive() or timer.finished.is_set():
                if self.left or self.unanswered:
                    self.ask(service.client)
                time.sleep(0.05)
                assert service.client.post("/predictions", json=query).status_code in (200, 503)
        except (httpx.TransportError, RuntimeError):
            pass  # killed
        timer.join()


def kill_again_and_again(root, fast_path, kills: int, seed: int) -> Crowd:
    """Kill a service under load so many times at random moments; then let it finish, and check everything."""
    crowd, draw = Crowd(seed), random.Random(seed)
    with Workspace.create(root, seed=0, classes=LABELS, workers=1) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(BySource(), QUICK)
    for _ in range(kills):
        with Process(root) as service:
            if draw.random() < 0.8:
                service.until_ready()  # otherwise it is killed while it starts
            crowd.press(service, draw.uniform(0.0, 1.5))
    with Process(root) as service:
        service.until_ready()
        while crowd.unanswered:
            crowd.ask(service.client)
        found = service.until_done(sorted(crowd.accepted.values()))
        listed = service.client.get("/requests", params={"limit": 1000}).json()["requests"]
        assert service.end() == 0
    assert [one["state"] for one in found] == ["done"] * len(crowd.accepted)
    assert sorted(one["number"] for one in listed) == sorted(crowd.accepted.values()), "none lost, none twice"
    for one in found:
        assert [move["state"] for move in one["history"]].count("done") == 1 and one["certificate"]
    check(root, crowd, {one["certificate"] for one in found}, fast_path)
    return crowd


def check(root, crowd: Crowd, certificates: set[int], fast_path) -> None:
    with Workspace(root, workers=1) as workspace:
        verification = workspace.verify(full=True)
        assert verification.ok, verification
        assert sorted(certificates) == list(range(1, workspace.certificates.last() + 1)), "each speaks of somebody"
        entries = [entry for n in certificates for entry in workspace.certificates.load(n).entries]
        assert len(entries) == len(set(entries)) == len(crowd.accepted)
        kept = [row for row in ROWS if row.id not in crowd.accepted]
        assert promised_files(root) == never_saw(workspace, kept, fast_path / "never")
        assert withheld_ids(workspace.context.catalogue) == set()


@pytest.mark.slow
def test_killed_at_random_moments_under_load(fast_path):
    crowd = kill_again_and_again(fast_path / "ws", fast_path, kills=10, seed=0)
    assert len(crowd.accepted) > 10


def main() -> None:
    """`python -m tests.service.runtime.test_kill 50 SEED` kills that many times."""
    import sys
    import tempfile
    from pathlib import Path

    kills, seed = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        start = time.monotonic()
        crowd = kill_again_and_again(Path(folder) / "ws", Path(folder), kills, seed)
    print(f"{kills} kills, {len(crowd.accepted)} requests accepted, all done once, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
