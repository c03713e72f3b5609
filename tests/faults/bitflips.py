"""Bits that flip on the disk: is every change found, and does nothing certify what is not so?

    python -m tests.faults.bitflips --flips 1000 --seed 0      prints a table of counts by file, exit 1 if one is wrong

Each trial copies a workspace, flips one bit in one file, and tries through the command line:

    verify      must find the flip, if it changed content, or bring the content back
    forget      refuses, or leaves exactly what a forget of the undamaged workspace leaves
    add         must not let a forgotten sample return

Content is what a file says: the values of JSON, the rows of every table and index of the catalogue, the bytes of other
files. A flip in a part of the catalogue's file that SQLite does not use, or in a space of JSON, changes no content.
"""

import argparse
import json
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from shardgraph import Workspace
from shardgraph.cli.main import app
from shardgraph.storage.samples import unpack_samples
from tests.compatibility.samples import arrays, write_samples
from tests.compatibility.scenarios import MEMORY

CATALOGUE, RECORD = "catalog.sqlite", "record.log"
HISTORY = (
    "init WS --seed 3",
    "add WS DATA/base.npz",
    "train WS --device cpu --epochs 1 --topology bilevel-across --coarse 2 --fine 1",
    "source WS ann --owner Ann --terms consent --rate 0.25",
    "grant WS acme --source bob --source web",
    "provision WS acme",
    "token WS ops --role operator",
    "forget WS --sample s-001 --yes",
    "forget WS --subject p2 --yes",
    "add WS DATA/more.npz --wait",
)
FORGETS = {"--source": "ann", "--subject": "p7", "--label": "bee", "--sample": "s-030"}
PROMISED = ("manifest.json", "prototypes.safetensors", "shards", "heldout", "inbox", "models")
COLUMNS = ("flips", "content", "found", "mended", "missed", "refused", "complete", "WRONG", "kept out", "RETURNED")
WRONG = ("missed", "WRONG", "RETURNED")


@dataclass
class Template:
    """A workspace with a history, and what each forget leaves in it."""

    folder: Path
    left: dict[str, dict[str, bytes]] = field(default_factory=dict)  # by option of the forget: its files
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """All files with content: of the workspace, and the record beside it."""
        found = [path for path in (self.folder / "ws").rglob("*") if path.is_file() and path.stat().st_size]
        return sorted([*found, self.folder / RECORD])


def make_template(folder: Path) -> Template:
    """A trained workspace with sources, subjects, rights, certificates, tokens, waiting samples and a record."""
    data, template = write_samples(folder / "data"), Template(folder / "template")
    root = template.folder / "ws"
    root.parent.mkdir()
    for step in HISTORY:
        code, told = command(step.replace("DATA", str(data)), root)
        assert code == 0, (step, told)
        if step.startswith("train"):
            with Workspace(root) as workspace:
                workspace.queue.keep_log(template.folder / RECORD)
    for option, name in FORGETS.items():
        with copied(template) as (copy, _):
            code, told = command(f"forget WS {option} {name} --yes", copy)
            assert code == 0 and told["event"] == "forget", told
            template.left[option], template.digests[option] = promised(copy), told["model_digest"]
    return template


class copied:
    """A copy of the template: the workspace's folder and the record's path, for the time of a `with`."""

    def __init__(self, template: Template) -> None:
        self._template = template

    def __enter__(self) -> tuple[Path, Path]:
        self._folder = Path(tempfile.mkdtemp(dir=MEMORY))
        shutil.copytree(self._template.folder, self._folder, dirs_exist_ok=True)
        root, record = self._folder / "ws", self._folder / RECORD
        (root / "record").write_text(str(record))
        return root, record

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)


def command(line: str, root: Path) -> tuple[int, dict[str, Any]]:
    """Run a command on this workspace; returns the exit code and the JSON answer."""
    words = [str(root) if word == "WS" else word for word in line.split()]
    result = CliRunner().invoke(app, [*words, "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    lines = [text for text in result.stdout.splitlines() if text.startswith("{")]
    return result.exit_code, json.loads(lines[-1]) if lines else {}


def promised(root: Path) -> dict[str, bytes]:
    """The files whose bytes depend on the retained data alone."""
    paths = (path for name in PROMISED for path in (root / name, *(root / name).rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def flip(path: Path, rng: random.Random) -> int:
    """Flip one random bit; returns the number of its byte."""
    raw = bytearray(path.read_bytes())
    byte = rng.randrange(len(raw))
    raw[byte] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)
    return byte


def content(path: Path) -> object:
    """What a file says."""
    if path.name == CATALOGUE:
        return catalogue_content(path)
    if path.suffix == ".json":
        try:
            return json.loads(path.read_bytes())
        except ValueError as error:
            return repr(error)
    return path.read_bytes().strip() if path.name == "public.key" else path.read_bytes()


def catalogue_content(path: Path) -> object:
    """Every row of every table, and every entry of every index, in the order in which they are stored."""
    try:
        db = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
        try:
            layout = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
            tables = {name: db.execute(f"SELECT * FROM {name} {how}").fetchall() for name, how in _tables(layout)}
            entries = {index: db.execute(sql).fetchall() for index, sql in _index_queries(db, layout)}
            return layout, tables, entries
        finally:
            db.close()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return repr(error)


def _tables(layout: list[tuple[str, str, str, str]]) -> Iterator[tuple[str, str]]:
    """Every table, with the SQL that keeps SQLite from reading an index instead."""
    for kind, name, _, sql in layout:
        if kind == "table":
            yield name, f"INDEXED BY sqlite_autoindex_{name}_1" if "WITHOUT ROWID" in sql else "NOT INDEXED"


def _index_queries(db: sqlite3.Connection, layout: list[tuple[str, str, str, str]]) -> Iterator[tuple[str, str]]:
    for kind, index, table, sql in layout:
        if kind == "index" and sql:
            columns = [name for _, _, name in db.execute(f"PRAGMA index_info({index})") if name]
            keys = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
            where = " WHERE" + sql.split("WHERE")[1] if "WHERE" in sql else ""
            chosen = ", ".join(dict.fromkeys([*columns, *keys]))
            yield index, f"SELECT {chosen} FROM {table} INDEXED BY {index}{where}"


def holds(root: Path, wanted: set[str]) -> set[str]:
    """Those of the samples that a file of the workspace still holds, read from the files themselves."""
    found = set()
    for folder in ("shards", "heldout", "inbox"):
        for path in (root / folder).rglob("*.safetensors"):
            try:
                found |= set(unpack_samples(path.read_bytes()).ids) & wanted
            except Exception:  # the flip hit this file: nothing can be read from it
                continue
    return found


def meant(option: str, name: str) -> set[str]:
    """The samples that a forget means."""
    given = arrays(72)
    column = {"--source": "sources", "--subject": "subjects", "--label": "labels", "--sample": "ids"}[option]
    return {str(sample) for sample, value in zip(given["ids"], given[column], strict=True) if value == name}


def try_one(template: Template, path: Path, rng: random.Random) -> tuple[list[str], str]:
    """One trial; returns the columns to count, and a line that names the trial."""
    relative, state = path.relative_to(template.folder), rng.getstate()
    counted, told = ["flips"], ""
    with copied(template) as (root, _):
        target = root.parent / relative
        before = content(target)
        byte = flip(target, rng)
        changed = content(target) != before
        code, _ = command("verify WS", root)
        if changed:
            mended = not code and content(target) == before  # as after a crash: the catalogue says what is right
            counted += ["content", "found" if code else "mended" if mended else "missed"]
        told = f"{relative} byte {byte}"
    option = rng.choice(list(FORGETS))
    with copied(template) as (root, _):
        again = random.Random()
        again.setstate(state)
        flip(root.parent / relative, again)
        counted.append(_forgotten(template, root, option, relative))
    with copied(template) as (root, _):
        again.setstate(state)
        flip(root.parent / relative, again)
        before = holds(root, {"s-001"})  # a flipped bit may give another sample this name
        command("add WS DATA/return.npz --wait".replace("DATA", str(template.folder.parent / "data")), root)
        counted.append("RETURNED" if holds(root, {"s-001"}) - before else "kept out")
    return counted, f"{told}, forget {option}"


def _forgotten(template: Template, root: Path, option: str, flipped: Path) -> str:
    """How a forget of a damaged workspace ends: refused, complete, or wrong."""
    code, told = command(f"forget WS {option} {FORGETS[option]} --yes", root)
    if code or "model_digest" not in told:
        return "refused"
    if holds(root, meant(option, FORGETS[option])):
        return "WRONG"
    if told["event"] != "forget":
        return "complete"
    name = str(flipped.relative_to("ws")) if flipped.is_relative_to("ws") else ""
    wanted = {path: raw for path, raw in template.left[option].items() if path != name}
    found = {path: raw for path, raw in promised(root).items() if path != name}
    return "complete" if told["model_digest"] == template.digests[option] and found == wanted else "WRONG"


def kind_of(path: Path, template: Template) -> str:
    """The row of the table that a file belongs to."""
    relative = path.relative_to(template.folder)
    if relative.name == RECORD:
        return "the record outside"
    inside = relative.relative_to("ws")
    return f"{inside.parts[0]}/" if len(inside.parts) > 1 else inside.name


def choose(template: Template, rng: random.Random) -> tuple[str, Path]:
    """A random file and its kind: half of the flips are in the catalogue, the others in every other kind alike."""
    kinds: dict[str, list[Path]] = {}
    for path in template.files:
        kinds.setdefault(kind_of(path, template), []).append(path)
    others = [kind for kind in sorted(kinds) if kind != CATALOGUE]
    kind = CATALOGUE if rng.random() < 0.5 else rng.choice(others)
    return kind, rng.choice(kinds[kind])


def trial(template: Template, seed: int, number: int) -> tuple[str, list[str], str]:
    """Trial `number`: the kind of file, the columns to count, and a line that names it."""
    rng = random.Random(f"{seed} {number}")
    kind, path = choose(template, rng)
    return kind, *try_one(template, path, rng)


def run(template: Template, flips: int, seed: int, processes: int = 1) -> tuple[dict[str, Counter[str]], list[str]]:
    """Counts by kind of file, and the trials that went wrong; the same for every number of processes."""
    counts, wrong, work = dict[str, Counter[str]](), list[str](), partial(trial, template, seed)
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn")) if processes > 1 else None
    with pool or nullcontext():
        for kind, counted, told in (pool.map if pool else map)(work, range(flips)):
            counts.setdefault(kind, Counter()).update(counted)
            wrong += [f"{column}: {told}" for column in counted if column in WRONG]
    return counts, wrong


def table(counts: dict[str, Counter[str]]) -> str:
    """The counts by kind of file, as text."""
    whole: Counter[str] = sum(counts.values(), Counter())
    rows = [*sorted(counts.items()), ("all", whole)]
    width = max(len(kind) for kind, _ in rows)
    lines = [" " * width + "".join(f"{column:>10}" for column in COLUMNS)]
    return "\n".join(lines + [f"{kind:<{width}}" + "".join(f"{row[c]:>10}" for c in COLUMNS) for kind, row in rows])


def main() -> int:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        counts, wrong = run(make_template(Path(folder)), given.flips, given.seed, given.processes)
    print(table(counts))
    print("\n".join(wrong) or "no flip was missed, nothing was certified that is not so, no forgotten sample returned")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
