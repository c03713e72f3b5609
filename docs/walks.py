"""Trace three walks from door to disk: which of our files run a function for `train`, `forget` and `POST /requests`.

    python docs/walks.py            the counts, and the files by room
    python docs/walks.py --json     the same as JSON
    python docs/walks.py --write    the same, into ARCHITECTURE.md

A file counts if a function of it is executed, in the command's process or in one that it starts; that a module is
imported does not count. For `POST /requests` both processes of a running service are traced, from the call until the
request is done.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shardgraph

PACKAGE = Path(shardgraph.__file__).parent
DOCUMENT = Path(__file__).parents[1] / "ARCHITECTURE.md"
BEGIN, END = "<!-- walks: written by docs/walks.py -->", "<!-- end of walks -->"
HOOK = """
import os, signal, sys, threading

FUNCTION = 0x3  # CO_OPTIMIZED | CO_NEWLOCALS: a function's code, and neither a module's nor a class's
package, folder = os.environ["WALK_PACKAGE"], os.environ["WALK_OUTPUT"]
seen = set()


def profile(frame, event, argument):
    if event == "call":
        code = frame.f_code
        name = code.co_filename
        if name not in seen and name.startswith(package) and code.co_flags & FUNCTION == FUNCTION:
            seen.add(name)
            with open(f"{folder}/{os.getpid()}", "a") as file:
                file.write(name + "\\n")


def restart(*_):
    seen.clear()
    open(f"{folder}/{os.getpid()}", "w").close()


signal.signal(signal.SIGUSR2, restart)
threading.setprofile(profile)
sys.setprofile(profile)
"""


def run(folder: Path, *words: str) -> set[str]:
    """The files that one command runs functions of."""
    output = folder / "walk"
    output.mkdir()
    done = subprocess.run(
        [*COMMAND, *words], env=environment(folder, output), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return collected(output)


COMMAND = (sys.executable, "-m", "shardgraph.cli.main")


def environment(folder: Path, output: Path) -> dict[str, str]:
    """This process's environment, with the hook that records."""
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join([str(hook), str(PACKAGE.parent)])
    own = {"WALK_PACKAGE": str(PACKAGE) + os.sep, "WALK_OUTPUT": str(output), "PYTHONPATH": path}
    return {**os.environ, **own}


def recorded(output: Path) -> set[str]:
    """The files that any process recorded so far, below the package."""
    names = {line for file in output.iterdir() for line in file.read_text().splitlines()}
    return {str(Path(name).relative_to(PACKAGE)) for name in names}


def collected(output: Path) -> set[str]:
    """The files that any process recorded; the folder is removed."""
    found = recorded(output)
    shutil.rmtree(output)
    return found


def post(folder: Path, workspace: Path) -> set[str]:
    """The files that run functions in a service and its worker, from a POST until its request is done."""
    output = folder / "walk"
    output.mkdir()
    words = [*COMMAND, "serve", str(workspace), "--port", "0"]
    service = subprocess.Popen(words, env=environment(folder, output), stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr is not None
        lines = (json.loads(line) for line in service.stderr if line.startswith("{"))
        port = next(line["port"] for line in lines if line["event"] == "listening")
        threading.Thread(target=service.stderr.read, daemon=True).start()
        base = f"http://127.0.0.1:{port}"
        until(lambda: call(f"{base}/ready").get("ready"))
        time.sleep(3)  # the worker measures the model while nothing waits
        for file in output.iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.name), signal.SIGUSR2)
        time.sleep(0.5)
        accepted = call(f"{base}/requests", {"samples": ["s-007"]})
        until(lambda: call(f"{base}/requests/{accepted['number']}")["state"] == "done")
        return recorded(output)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()
        collected(output)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this took too long"
        time.sleep(0.1)


def call(url: str, body: object = None) -> dict[str, Any]:
    """A JSON answer; an error's body counts as one."""
    raw = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    except urllib.error.URLError:  # it does not listen yet
        return {}
    return found


def walks() -> dict[str, list[str]]:
    """The files of the three walks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, workspace = folder / "data.npz", folder / "ws"
        rng, numbers = np.random.default_rng(0), np.arange(60)
        np.savez(
            data,
            tokens=rng.normal(size=(60, 2, 8)).astype(np.float32),
            labels=np.array(["ant", "bee", "cat"])[numbers % 3],
            ids=np.array([f"s-{i:03d}" for i in numbers]),
            split=np.array(["test" if i % 10 == 0 else "train" for i in numbers]),
        )
        run(folder, "init", str(workspace), "--seed", "1")
        run(folder, "add", str(workspace), str(data))
        found = {
            "train": run(folder, "train", str(workspace), "--coarse", "2", "--fine", "2", "--epochs", "1"),
            "forget": run(folder, "forget", str(workspace), "--sample", "s-008", "--yes"),
            "POST /requests": post(folder, workspace),
        }
    return {walk: sorted(files) for walk, files in found.items()}


def as_text(found: dict[str, list[str]]) -> str:
    """The walks in Markdown: a line a room, with its files."""
    lines = []
    for walk, files in found.items():
        lines += [f"**{walk}**: {len(files)} files", ""]
        rooms: dict[str, list[str]] = {}
        for file in files:
            room, _, rest = file.partition("/")
            rooms.setdefault(room if rest else "", []).append((rest or file).removesuffix(".py"))
        for room, names in rooms.items():
            lines.append(f"- `{room + '/' if room else 'shardgraph/'}` {', '.join(names)}")
        lines.append("")
    return "\n".join(lines)


def written(text: str) -> dict[str, set[str]]:
    """The walks that a document lists, as `as_text` wrote them."""
    found: dict[str, set[str]] = {}
    for line in between(text).splitlines():
        if line.startswith("**"):
            files = found[line.split("**")[1]] = set()
        elif line.startswith("- `"):
            room, _, names = line.removeprefix("- `").partition("` ")
            files |= {f"{'' if room == 'shardgraph/' else room}{name}.py" for name in names.split(", ")}
    return found


def between(text: str) -> str:
    """What stands between the two marks of a document."""
    return text.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Print the walks, or write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help="write them into ARCHITECTURE.md")
    args = parser.parse_args()
    found = walks()
    if args.json:
        print(json.dumps(found, indent=1))
    elif args.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        DOCUMENT.write_text(f"{before}{BEGIN}\n\n{as_text(found)}\n{END}{after}", encoding="utf-8")
    else:
        print(as_text(found))


if __name__ == "__main__":
    main()
