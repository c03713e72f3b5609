"""What others call: the command line's options and arguments, and the service's routes, schemas and pages.

`surface.json` holds what it was before; a command may only be new if it is named in NEW_COMMANDS, an option if it is in
ADDED_OPTIONS.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import typer.main

from shardgraph.cli.main import app
from tests.compatibility.additions import ADDED_OPTIONS
from tests.compatibility.samples import write_samples
from tests.compatibility.scenarios import HERE, MEMORY, run

SURFACE = HERE / "surface.json"
NEW_COMMANDS = frozenset({"migrate", "record", "rekey"})  # that did not exist when surface.json was written
READY = 120  # seconds that a service may take to start
# Addresses of the pages, which openapi.json does not list.
PAGES = (
    "/", "/pages", "/pages/login", "/pages/logout", "/pages/graph", "/pages/graph/shard", "/pages/graph.json",
    "/pages/forget", "/pages/forget/find", "/pages/forget/preview", "/pages/forget/submit",
    "/pages/requests", "/pages/requests/1", "/pages/requests/1/events", "/pages/requests/1/cancel",
    "/pages/requests/1/retry", "/pages/proof", "/pages/proof/check", "/pages/proof/everything", "/pages/proof/1",
    "/pages/proof/1/verify", "/pages/proof/1/nonce", "/pages/proof/1/certificate.json",
    "/pages/rights", "/pages/rights/of", "/pages/rights/grant", "/pages/rights/revoke", "/pages/rights/provision",
    "/pages/rights/measure", "/pages/rights/ask", "/pages/nowhere",
)  # fmt: skip


def commands() -> dict[str, Any]:
    """Every command's options (VALUE: it takes one; ...: also several) and arguments, and those of the app itself."""
    group: Any = typer.main.get_command(app)
    found = {"": _parameters(group)} | {name: _parameters(command) for name, command in group.commands.items()}
    return found


def without_additions(found: dict[str, Any]) -> dict[str, Any]:
    """The commands without the options that were added."""
    return {
        name: known | {"options": [each for each in known["options"] if each not in ADDED_OPTIONS.get(name, ())]}
        if "options" in known
        else known
        for name, known in found.items()
    }


def service() -> dict[str, Any]:
    """The routes and schemas of a running service, and how each page's address answers to GET and to an empty POST."""
    with _served() as client:
        document = client.get("/openapi.json").json()
        routes = sorted(f"{method.upper()} {path}" for path, known in document["paths"].items() for method in known)
        schemas = {
            name: sorted(value.get("properties", {})) for name, value in document["components"]["schemas"].items()
        }
        pages = {path: f"GET {_answer(client, 'GET', path)}, POST {_answer(client, 'POST', path)}" for path in PAGES}
    return {"routes": routes, "schemas": schemas, "pages": pages}


def whole() -> dict[str, Any]:
    """Everything that surface.json holds."""
    return {"commands": commands()} | service()


def load() -> dict[str, Any]:
    """What surface.json holds."""
    return json.loads(SURFACE.read_text())


def write() -> None:
    """Write surface.json anew."""
    SURFACE.write_text(json.dumps(whole(), indent=1, sort_keys=True) + "\n")


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """One line for each command, route, schema or page that differs.

    A schema's own name is in no request and no answer: what counts is which properties there are together.
    """
    lines = []
    for part in sorted(expected.keys() | found.keys()):
        named = _by_properties if part == "schemas" else _by_name
        old, new = (named(side.get(part, {})) for side in (expected, found))
        new = without_additions(new) if part == "commands" else new
        allowed = NEW_COMMANDS - old.keys() if part == "commands" else frozenset()
        for name in sorted((old.keys() | new.keys()) - allowed):
            if old.get(name) != new.get(name):
                lines.append(f"{part} {name!r}: was {old.get(name)}, is {new.get(name)}")
    return lines


def compare() -> int:
    """Print how the surface compares; 1 if it differs."""
    lines = differences(load(), whole())
    print(f"{'surface':28s} {'differs' if lines else 'equal'}", *lines, sep="\n    ")
    return 1 if lines else 0


def _by_properties(schemas: dict[str, list[str]]) -> dict[str, int]:
    """How many schemas have the same properties."""
    return dict(Counter(", ".join(properties) for properties in schemas.values()))


def _by_name(value: Any) -> dict[str, Any]:
    return dict.fromkeys(value, True) if isinstance(value, list) else value


def _parameters(command: Any) -> dict[str, list[str]]:
    options, arguments = [], []
    for parameter in command.params:
        if parameter.name in ("install_completion", "show_completion"):  # Typer's own
            continue
        many = "..." if parameter.nargs == -1 or getattr(parameter, "multiple", False) else ""
        if parameter.param_type_name == "argument":
            name = (parameter.metavar or parameter.name.upper()).removesuffix("...")
            arguments.append(f"{name}{many}{'' if parameter.required else '?'}")
        else:
            value = "" if parameter.is_flag else f" VALUE{many}"
            needed = " (required)" if parameter.required else ""
            options.append(", ".join(sorted([*parameter.opts, *parameter.secondary_opts])) + value + needed)
    return {"options": sorted(options), "arguments": arguments}


def _answer(client: httpx.Client, method: str, path: str) -> int:
    """The status of the answer; a stream of events is not read."""
    with client.stream(method, path) as answer:
        return answer.status_code


@contextmanager
def _served() -> Iterator[httpx.Client]:
    """A client of `serve`, run as a process on a small workspace with a right, and with a request that is done."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        places = {"WS": Path(folder, "ws"), "DATA": write_samples(Path(folder, "data"))}
        for words in (
            "init WS --seed 1",
            "add WS DATA/base.npz",
            "train WS --device cpu --coarse 2 --epochs 1",
            "grant WS acme --source ann",
        ):
            code, _ = run(words, places)
            assert code == 0, words
        log = Path(folder, "log")
        words = [sys.executable, "-m", "shardgraph.cli.main", "serve", str(places["WS"]), "--port", "0"]
        with log.open("w") as stderr:
            process = subprocess.Popen(words, stderr=stderr)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{_port(process, log)}", timeout=READY) as client:
                _forget_sample(client)
                yield client
        finally:
            process.terminate()
            process.wait(60)


def _forget_sample(client: httpx.Client) -> None:
    """Have a sample forgotten, so that there is a request 1 and a certificate 1 to show."""
    end = time.monotonic() + READY
    number = client.post("/requests", json={"samples": ["s-001"]}).json()["number"]
    while (state := client.get(f"/requests/{number}").json()["state"]) != "done":
        assert time.monotonic() < end and state != "failed", f"the request is {state}"
        time.sleep(0.05)


def _port(process: subprocess.Popen, log: Path) -> int:
    """The port that a service listens on, once it does; it says so on standard error."""
    end = time.monotonic() + READY
    while time.monotonic() < end and process.poll() is None:
        for line in log.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n") and json.loads(line).get("event") == "listening":
                return json.loads(line)["port"]
        time.sleep(0.05)
    raise RuntimeError(f"the service did not start: {log.read_text()}")
