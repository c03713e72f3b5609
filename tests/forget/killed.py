"""A process that kills its children in the middle of a command, and lets others finish it.

    python killed.py BASE FOLDER < jobs.json

Every job copies the workspace BASE, does an act on the copy in a child that dies at a line of our code or after a
delay, then finishes in another child, which reports what it found. Torch is imported once and used in children alone:
a fork before its first use is safe, and costs milliseconds where a new interpreter costs seconds.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import shardgraph
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.privacy.charges import Charges
from shardgraph.forget.workspace import Workspace
from shardgraph.learn.private.accounting.mechanism import library
from shardgraph.storage.tables import inventory
from tests.strategies import all_bytes, promised_files

ROOMS = tuple(str(Path(shardgraph.__file__).parent / room) for room in ("storage", "cluster", "forget"))


def do(root: Path, act: str, gone: list[str]) -> None:
    """One command of a person."""
    with Workspace(root, workers=1) as workspace:
        if act == "train":
            workspace.train()
        elif act == "rebuild":
            workspace.train(rebuild=True)
        elif act == "repair":
            workspace.repair()
        elif act == "resume":
            workspace.resume()
        else:
            workspace.forget(ForgetRequest(samples=tuple(gone)), instant=act == "instant")


def finish(root: Path, gone: list[str]) -> dict:
    """What the next commands of that person find and leave."""
    with Workspace(root, workers=1) as workspace:
        resumed = len(workspace.resume())
        said = [check.detail for check in workspace.verify().checks if not check.ok]
        known = len(inventory.known_ids(workspace.context.catalogue, gone))
        if known:
            workspace.forget(ForgetRequest(samples=tuple(gone)))
        workspace.train()
        workspace.repair()
        verification = workspace.verify().to_json()
        charges = Charges.load(workspace.context.catalogue).to_json()
        events = [workspace.certificates.load(i + 1).event for i in range(workspace.certificates.last())]
    files = all_bytes(root)
    return {
        "resumed": resumed,
        "said": said,
        "known": known,
        "verification": verification,
        "events": events,
        "charges": charges,
        "certificates": len([name for name in files if name.startswith("certificates")]),
        "promised": {name: sha256(raw).hexdigest() for name, raw in promised_files(root).items()},
        "traces": [name for name, raw in files.items() if any(sample.encode() in raw for sample in gone)],
        "left": [name for name in files if name.startswith(("scratch", "inbox"))],
    }


def die_at(line: int) -> None:
    """Arrange that this process ends, as if killed, before it executes our `line`-th line; 0 counts them only."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if not frame.f_code.co_filename.startswith(ROOMS):
            return None
        if event == "line":
            count += 1
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    die_at.counted = lambda: count


def in_child(act: Callable[[], object], delay: float | None = None) -> object:
    """The result of an act in a forked child; None if the child was killed, by itself or after a delay."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            result = act()
            with os.fdopen(writing, "w") as file:
                json.dump(result, file)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    if status:
        raise RuntimeError("a child failed; its error is above")
    return json.loads(text)


def run(base: Path, root: Path, job: dict) -> dict:
    """One job: every kill in turn, then the end."""
    shutil.copytree(base, root)
    killed = []
    for kill in job["kills"]:

        def act(kill: dict = kill) -> int:
            die_at(kill.get("line", 0))
            do(root, kill["act"], job["gone"])
            sys.settrace(None)
            return die_at.counted()

        killed.append(in_child(act, kill.get("delay")) is None)
    result = in_child(lambda: finish(root, job["gone"]))
    shutil.rmtree(root)
    return {"killed": killed, **result}


def measure(base: Path, root: Path, act: str, gone: list[str]) -> dict:
    """How many lines and how many seconds an undisturbed act takes."""

    def timed() -> float:
        start = time.perf_counter()
        do(root, act, gone)
        return time.perf_counter() - start

    def counted() -> int:
        die_at(0)
        do(root, act, gone)
        sys.settrace(None)
        return die_at.counted()

    found = []
    for look in (timed, counted):
        shutil.copytree(base, root)
        found.append(in_child(look))
        shutil.rmtree(root)
    return {"seconds": found[0], "lines": found[1]}


def main() -> None:
    base, folder = Path(sys.argv[1]), Path(sys.argv[2])
    order = json.load(sys.stdin)
    if order.get("private"):
        library()  # once, and not in every child
    size = measure(base, folder / "measured", order["act"], order["gone"])
    draw = random.Random(order["seed"])
    results = []
    for i in range(order["count"]):
        first = {"act": order["act"]}
        if order["how"] == "delay":
            first["delay"] = draw.uniform(0, 1.05 * size["seconds"])
        else:  # spread evenly over the lines, the first and the last among them
            first["line"] = 1 + i * (size["lines"] - 1) // max(order["count"] - 1, 1)
        again = [{"act": "resume", "line": draw.randrange(1, size["lines"])}] * order.get("again", 0)
        results.append(run(base, folder / f"job{i}", {"kills": [first, *again], "gone": order["gone"]}))
    json.dump({"size": size, "results": results}, sys.stdout)


if __name__ == "__main__":
    main()
