"""Forget on a disk that has so many bytes free, for every number of a list; needs a mount of its own.

    unshare -rm python -m tests.forget.small_disk BASE FOLDER SAMPLE FREE...

The disk is a tmpfs, which refuses what does not fit as any disk does. What happened is printed as JSON, a line each.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from shardgraph.errors import DiskFull
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from tests.strategies import all_bytes


def fill(disk: Path, free: int) -> Path:
    """Write a file that leaves so many bytes of the disk free."""
    path = disk / "filler"
    path.write_bytes(bytes(shutil.disk_usage(disk).free - free))
    return path


def forget(root: Path, sample: str, free: int) -> dict:
    """Forget with so little room; whether it was refused, and whether status and predictions go on either way."""
    before = {name: raw for name, raw in all_bytes(root).items() if "catalog" not in name}
    filler = fill(root.parent, free)
    said, works = "", True
    try:
        with Workspace(root, workers=1) as workspace:
            try:
                workspace.forget(ForgetRequest(samples=(sample,)))
            except DiskFull as error:
                said = str(error)
        with Workspace(root, workers=1) as workspace:
            workspace.resume()
            workspace.status()
            workspace.evaluate()
    except Exception as error:
        works, said = False, f"{type(error).__name__}: {error}"
    filler.unlink()
    after = {name: raw for name, raw in all_bytes(root).items() if "catalog" not in name}
    with Workspace(root, workers=1) as workspace:
        workspace.resume()
        verified, erasures = workspace.verify().ok, workspace.status()["requests"]
    return {"free": free, "said": said, "works": works, "changed": before != after, "ok": verified, "done": erasures}


def main() -> None:
    base, disk, sample = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(disk)], check=True)
    for free in map(int, sys.argv[4:]):
        root = disk / "ws"
        shutil.copytree(base, root)
        print(json.dumps(forget(root, sample, free)), flush=True)
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
