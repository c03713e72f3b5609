"""Workspaces that an earlier version wrote, as archives, for later versions to open.

    python -m tests.compatibility.archives --write     write them anew, with the version that runs it

Archives are data: do not write them anew because a test fails, for then they prove nothing.

    lived      bilevel, sources described, a right provisioned, held-out samples; certificates: a source was forgotten,
               a sample withdrawn at once, and the groups repaired
    dirty      a forget was interrupted after it deleted names and before their copies were looked for: the catalogue's
               `user_version` is 1, and a deleted name still stands in a free page of it
    waiting    untrained, with samples in the inbox
"""

import argparse
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.compatibility.samples import write_samples
from tests.compatibility.scenarios import HERE, MEMORY, run

ARCHIVES = HERE / "workspaces"
LEFTOVER = "s-099-deleted-and-not-yet-scrubbed"
HISTORIES = {
    "lived": (
        "init WS --seed 3",
        "add WS DATA/base.npz",
        "source WS bob --owner Bob --terms consent --rate 0.1",
        "train WS --device cpu --coarse 2 --fine 2 --epochs 2",
        "grant WS acme --source bob --source web",
        "provision WS acme",
        "forget WS --source ann --reason asked --yes",
        "forget WS --sample s-001 --instant --yes",
        "repair WS",
    ),
    "dirty": (
        "init WS --seed 4",
        "add WS DATA/base.npz",
        "train WS --device cpu --topology by-source --safe web --epochs 2",
        "forget WS --sample s-001 --yes",
    ),
    "waiting": ("init WS --seed 5", "add WS DATA/base.npz", "add WS DATA/more.npz", "forget WS --sample s-002 --yes"),
}
NAMES = tuple(HISTORIES)


def unpack(name: str, folder: Path) -> Path:
    """A copy of one's own of an archived workspace, below a folder."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def write(name: str, folder: Path) -> Path:
    """Run a history and write its archive."""
    places = {"WS": folder / name, "DATA": write_samples(folder / "data")}
    for words in HISTORIES[name]:
        code, _ = run(words, places)
        assert code == 0, words
    if name == "dirty":
        soil(places["WS"])
    path = ARCHIVES / f"{name}.tar.gz"
    ARCHIVES.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(places["WS"], arcname=name, filter=_anonymous)
    return path


def soil(workspace: Path) -> None:
    """Leave the catalogue as an interrupted forget does: marked, and with a deleted name in a page that nobody uses."""
    with sqlite3.connect(workspace / "catalog.sqlite", isolation_level=None) as db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("CREATE TABLE left_behind (name TEXT)")
        db.execute("INSERT INTO left_behind VALUES (?)", (LEFTOVER,))
        db.execute("DROP TABLE left_behind")
        db.execute("PRAGMA user_version = 1")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> int:
    """Write all archives; the exit code."""
    parser = argparse.ArgumentParser(description="Workspaces of this version, as archives.")
    parser.add_argument("--write", action="store_true", required=True, help="replace the archives that are there")
    parser.parse_args()
    for name in NAMES:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            path = write(name, Path(folder))
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
