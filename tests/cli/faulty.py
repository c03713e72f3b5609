"""A process in which one call of the system fails, and the command that meets it must say so.

    LD_PRELOAD=faults.so python -m tests.cli.faulty BASE FOLDER < order.json

Every job copies the workspace BASE and runs a command on the copy in a forked child, in which the n-th call on a file
of the catalogue fails; another child then looks whether the workspace still works. Torch is imported once and used in
children alone.
"""

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path

import shardgraph.forget.workspace  # noqa: F401
from tests.cli.conftest import run


def in_child(words: list[str], number: int, code: int) -> dict:
    """What a command says if the `number`-th call fails with `code`; 0 lets all succeed and counts them."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reading)
        library = ctypes.CDLL(None)
        library.fault_arm(ctypes.c_long(number), code)
        ran = run(*words)
        seen = library.fault_seen()
        library.fault_arm(ctypes.c_long(0), 0)
        with os.fdopen(writing, "w") as file:
            json.dump({"code": ran.code, "said": ran.out + ran.err, "calls": seen}, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text)


def main() -> None:
    base, folder = Path(sys.argv[1]), Path(sys.argv[2])
    order = json.load(sys.stdin)
    results = []
    for command in order["commands"]:
        copy = folder / "copy"
        words = [str(copy) if word == "WS" else word for word in command]
        shutil.copytree(base, copy)
        calls = in_child(words, 0, 1)["calls"]
        shutil.rmtree(copy)
        for i in range(order["count"]):
            number = 1 + i * (calls - 1) // max(order["count"] - 1, 1)
            shutil.copytree(base, copy)
            found = in_child(words, number, order["codes"][i % len(order["codes"])])
            after = in_child(["verify", str(copy)], 0, 0)
            shutil.rmtree(copy)
            results.append({"command": command[0], "number": number, **found, "after": after})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
