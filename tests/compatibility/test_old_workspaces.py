"""Workspaces that an earlier version wrote can be opened, verified in full, forgotten from, added to and migrated.

Each history runs with the numerics of this process and, in a process of its own, with others: torch is told to use no
vector instructions, which gives another fingerprint.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.archives import LEFTOVER, NAMES, unpack
from tests.compatibility.machine import machine
from tests.compatibility.samples import write_samples
from tests.compatibility.scenarios import HERE, load_table, run

COUNTS = {  # of samples in the archives
    "lived": {"train": 35, "test": 4},
    "dirty": {"train": 53, "test": 6},
    "waiting": {"train": 64, "test": 7},
}
CERTIFICATES = {"lived": 3, "dirty": 1, "waiting": 1}
SAMPLE, HELD_OUT = "s-010", "s-025"  # that are in all of them
MOST = 300_000  # bytes of an archive
ELSEWHERE = """
import json, pathlib, sys
from tests.compatibility.scenarios import run
steps, places = json.load(sys.stdin)
places = {name: pathlib.Path(path) for name, path in places.items()}
print(json.dumps([run(words, places) for words in steps]))
"""
Answer = tuple[int, Any]


def run_here(steps: list[str], places: dict[str, Path]) -> list[Answer]:
    """Each step's exit code and JSON value, with the numerics of this process."""
    return [run(words, places) for words in steps]


def run_elsewhere(steps: list[str], places: dict[str, Path]) -> list[Answer]:
    """The same with other numerics, in another process."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=json.dumps([steps, {name: str(path) for name, path in places.items()}]),
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(code, value) for code, value in json.loads(done.stdout)]


@dataclass(frozen=True)
class Old:
    """A copy of an archived workspace, and how commands are run on it."""

    name: str
    places: dict[str, Path]
    runner: Callable[[list[str], dict[str, Path]], list[Answer]] = run_here

    def run(self, *steps: str) -> list[Answer]:
        """Each step's exit code and JSON value."""
        return self.runner([f"{words} --json" for words in steps], self.places)

    def holds(self, text: str) -> list[str]:
        """The files in which this text stands."""
        paths = [path for path in self.places["WS"].rglob("*") if path.is_file()]
        return sorted(path.name for path in paths if text.encode() in path.read_bytes())


@pytest.fixture(params=NAMES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    """Every archived workspace in turn."""
    return Old(request.param, {"WS": unpack(request.param, tmp_path), "DATA": write_samples(tmp_path / "data")})


@pytest.fixture(params=[run_here, run_elsewhere], ids=["numerics of here", "other numerics"])
def anywhere(request: pytest.FixtureRequest, old: Old) -> Old:
    """Every archived workspace, with both numerics."""
    return Old(old.name, old.places, request.param)


def wrong(verified: Answer, same: bool) -> list[dict[str, Any]]:
    """The checks that found something wrong; under other numerics some are not compared, which is not wrong."""
    code, found = verified
    assert found["ok"] == (code == 0)
    if same:
        assert code == 0, found
    return [check for check in found["checks"] if not check["ok"] and check["compared"]]


def test_it_is_opened_verified_forgotten_from_and_verified_again(anywhere: Old):
    assert anywhere.holds(SAMPLE) and anywhere.holds(HELD_OUT), "the search works"
    status, full, forgot, plain, again, left = anywhere.run(
        "status WS",
        "verify WS --full",
        f"forget WS --sample {SAMPLE} --sample {HELD_OUT} --yes",
        "verify WS",
        "verify WS --full",
        "status WS",
    )
    assert status[0] == 0 and status[1]["samples"] == COUNTS[anywhere.name]
    same = status[1]["numerics"] == "same"
    assert wrong(full, same) == []
    rebuilt = same or anywhere.name == "waiting"  # which is not trained yet
    assert forgot[0] == (0 if rebuilt else 4) and forgot[1]["rebuilt"] == rebuilt
    assert forgot[1]["certificate"] == CERTIFICATES[anywhere.name] + 1
    assert set(forgot[1]["nonces"]) == {SAMPLE, HELD_OUT}
    assert plain[0] == 0 and wrong(plain, same) == wrong(again, same) == []
    assert left[1]["samples"] == {split: count - 1 for split, count in COUNTS[anywhere.name].items()}
    assert anywhere.holds(SAMPLE) == anywhere.holds(HELD_OUT) == []


def test_on_the_machine_that_wrote_it_its_numerics_are_the_same(old: Old):
    """Else code that trains otherwise would only ever be told that nothing was compared."""
    if machine() != load_table()["machine"]:
        pytest.skip("the archives were written on another machine")
    ((code, status),) = old.run("status WS")
    assert code == 0 and status["numerics"] == "same"


def test_the_other_numerics_are_others(tmp_path: Path):
    """Else the tests above run twice with the same ones."""
    places = {"WS": unpack("lived", tmp_path)}
    ((code, status),) = run_elsewhere(["status WS --json"], places)
    assert code == 0
    if json.loads((places["WS"] / "manifest.json").read_bytes())["fingerprint"]["capability"] != "DEFAULT":
        assert status["numerics"] != "same"


def test_it_takes_samples_and_is_trained_anew(anywhere: Old):
    options = "--coarse 2 --fine 2 --epochs 1 --device cpu" if anywhere.name == "waiting" else "--rebuild"
    added, trained, verified, evaluated = anywhere.run(
        "add WS DATA/more.npz --only-new --wait", f"train WS {options}", "verify WS --full", "evaluate WS"
    )
    assert [added[0], trained[0], verified[0], evaluated[0]] == [0, 0, 0, 0]
    new = {"train": 0, "test": 0} if anywhere.name == "waiting" else {"train": 11, "test": 1}
    assert trained[1]["samples"] == {split: count + new[split] for split, count in COUNTS[anywhere.name].items()}
    assert verified[1]["ok"]


def test_its_certificates_are_good_and_open(old: Old):
    file = "WS/certificates/000001.json"
    ((code, _),) = old.run(f"verify-certificate {file} --public-key WS/public.key")
    assert code == 0
    forgotten = {"lived": "s-000", "dirty": "s-001", "waiting": "s-002"}[old.name]
    ((code, shown),) = old.run(f"certificate WS 1 --nonce-for {forgotten}")
    assert code == 0
    nonce = shown["nonces"][forgotten]
    ((code, opened),) = old.run(
        f"verify-certificate {file} --public-key WS/public.key --open {forgotten} --nonce {nonce}"
    )
    assert code == 0 and opened["opened"]
    ((code, again),) = old.run(f"forget WS --sample {forgotten} --yes")
    assert code == 0 and again["already_forgotten"] and again["certificate"] == 1


def test_the_rights_of_an_old_workspace_are_kept(tmp_path: Path):
    old = Old("lived", {"WS": unpack("lived", tmp_path), "DATA": write_samples(tmp_path / "data")})
    rights, predicted = old.run("rights WS", "predict WS DATA/new.npz --as acme")
    (right,) = rights[1]["rights"]
    assert right["consumer"] == "acme" and right["sources"] == ["bob", "web"] and right["provision"]
    assert predicted[0] == 0 and len(predicted[1]["predictions"]) == 3


@pytest.mark.parametrize("runner", [run_here, run_elsewhere], ids=["numerics of here", "other numerics"])
def test_opening_one_with_names_not_yet_scrubbed_leaves_it_clean(tmp_path: Path, runner: Callable):
    old = Old("dirty", {"WS": unpack("dirty", tmp_path)}, runner)
    assert old.holds(LEFTOVER) == ["catalog.sqlite"], "the search works"
    ((code, _),) = old.run("status WS")
    assert code == 0 and old.holds(LEFTOVER) == []


def test_migrate_succeeds_and_what_it_leaves_is_verified(anywhere: Old):
    migrated, again, status, verified = anywhere.run("migrate WS", "migrate WS", "status WS", "verify WS --full")
    assert migrated[0] == again[0] == 0, (migrated, again)
    assert status[1]["samples"] == COUNTS[anywhere.name]
    assert wrong(verified, status[1]["numerics"] == "same") == []


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_is_small(name: str):
    assert (HERE / "workspaces" / f"{name}.tar.gz").stat().st_size < MOST
