"""The record, command by command: whatever happened to it, a command honours it or refuses and says what to do.

`LOST` holds every state in which the record cannot be trusted, `readers`, `writers` and `reporters` every command that
opens a workspace. In the base workspace two samples were forgotten after the backup was made.
"""

import fcntl
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.cli.conftest import Ran, arrays, refused, run, state

GONE = ("s-001", "s-007")
SEED = 20
FLIPS = 100


class Place(NamedTuple):
    """A workspace, its record, and a folder with arrays."""

    ws: Path
    record: Path
    data: Path


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """now/ and backup/, both of one workspace; record.jsonl, and older.jsonl from before the second forget."""
    folder = tmp_path_factory.mktemp("base")
    np.savez(folder / "data.npz", **arrays(30))
    np.savez(folder / "more.npz", **arrays(2, start=60))
    np.savez(folder / "gone.npz", **{name: values[1:2] for name, values in arrays(30).items()})
    ws, record = folder / "now", folder / "record.jsonl"
    for words in (
        ("init", ws, "--seed", 1),
        ("add", ws, folder / "data.npz"),
        ("train", ws, "--coarse", 2, "--fine", 1, "--epochs", 1),
        ("grant", ws, "acme", "--source", "ann"),
        ("record", ws, "--new", record),
    ):
        assert run(*words).code == 0, words
    shutil.copytree(ws, folder / "backup")
    assert run("forget", ws, "--yes", "--sample", GONE[0]).code == 0
    shutil.copy(record, folder / "older.jsonl")
    assert run("forget", ws, "--yes", "--sample", GONE[1]).code == 0
    return folder


@pytest.fixture
def place(base: Path, fast_path: Path):
    """Puts a copy of the workspace, as it is now or as the backup has it, beside a copy of the record."""

    def put(which: str = "now") -> Place:
        ws, record = fast_path / "ws", fast_path / "record.jsonl"
        shutil.rmtree(ws, ignore_errors=True)
        shutil.copytree(base / which, ws)
        shutil.copy(base / "record.jsonl", record)
        (ws / "record").write_text(str(record))
        (ws / "serving").touch()  # the lock file of `serve`, which stays
        return Place(ws, record, base)

    return put


def readers(at: Place) -> list[tuple]:
    return [
        ("predict", at.ws, at.data / "more.npz"),
        ("evaluate", at.ws),
        ("evaluate", at.ws, "--as", "acme"),
        ("plan", at.ws, "--sample", "s-002", "--no-twins"),
        ("plan", at.ws, "--grant", "acme", "--source", "bob"),
        ("twins", at.ws, "--sample", "s-002"),
        ("rights", at.ws),
        ("certificate", at.ws),
        ("report", at.ws, "--out", at.record.parent / "report.html"),
        ("token", at.ws),
    ]


def writers(at: Place) -> list[tuple]:
    return [
        ("train", at.ws),
        ("add", at.ws, at.data / "more.npz"),
        ("forget", at.ws, "--yes", "--sample", "s-002"),
        ("repair", at.ws),
        ("source", at.ws, "ann", "--owner", "Ann"),
        ("grant", at.ws, "acme", "--source", "bob"),
        ("revoke", at.ws, "acme"),
        ("provision", at.ws, "acme"),
    ]


def held(ws: Path) -> set[str]:
    """The ids of the samples that a workspace holds."""
    with sqlite3.connect(ws / "catalog.sqlite") as db:
        found = {name for (name,) in db.execute("SELECT id FROM samples")}
    db.close()
    return found


def reports(at: Place, *words: str) -> None:
    """Check that `verify`, `status` and `record` report what is wrong, and change nothing."""
    before = state(at.ws)
    checked, shown, looked = (run(command, at.ws, "--json") for command in ("verify", "status", "record"))
    assert (checked.code, shown.code, looked.code) == (1, 0, 1)
    (check,) = [check for check in checked.json["checks"] if check["name"] == "record"]
    told = shown.json["record"]
    assert not check["ok"] and not told["ok"] and told["detail"] == check["detail"] == looked.json["error"]
    assert all(word in check["detail"] for word in words), check["detail"]
    assert [check["name"] for check in checked.json["checks"] if not check["ok"]] == ["record"]
    assert "WRONG" in run("verify", at.ws).out and "WRONG" in run("status", at.ws).out
    assert state(at.ws) == before


def truncate(at: Place, keep: int) -> None:
    at.record.write_bytes(at.record.read_bytes()[:keep])


def lines(at: Place) -> list[bytes]:
    return at.record.read_bytes().splitlines(keepends=True)


def replace_line(at: Place, number: int, *new: bytes) -> None:
    kept = lines(at)
    at.record.write_bytes(b"".join([*kept[:number], *new, *kept[number + 1 :]]))


def change_mark(at: Place) -> None:
    """One digit of a mark."""
    line = lines(at)[1]
    first = line.index(b'"marks": ["') + 11
    digit = b"0" if line[first : first + 1] != b"0" else b"1"
    replace_line(at, 1, line[:first] + digit + line[first + 1 :])


def other_workspace(at: Place) -> None:
    other = at.record.parent / "other"
    assert run("init", other).code == 0
    at.record.unlink()
    assert run("record", other, "--new", at.record).code == 0


# Whatever happened to the record, in a workspace that knows its last line
LOST = {
    "missing": (lambda at: at.record.unlink(), "is missing"),
    "a folder": (lambda at: (at.record.unlink(), at.record.mkdir()), "cannot be read"),
    "its path is lost": (lambda at: (at.ws / "record").unlink(), "which names the record"),
    "empty": (lambda at: truncate(at, 0), "no record"),
    "cut off in the first line": (lambda at: truncate(at, 40), "no record"),
    "cut off after the first line": (lambda at: truncate(at, len(lines(at)[0])), "lacks lines"),
    "cut off in a line": (lambda at: truncate(at, sum(map(len, lines(at)[:3])) + 30), "lacks lines"),
    "older": (lambda at: shutil.copy(at.data / "older.jsonl", at.record), "lacks lines"),
    "of another workspace": (other_workspace, "another workspace"),
    "no record": (lambda at: at.record.write_text("hello\n"), "no record"),
}
# In a workspace that was restored, lines after those that it knows may be damaged, too
DAMAGED = {
    "a digit of a mark": (change_mark, "line 2 of 5"),
    "a line removed": (lambda at: replace_line(at, 2), "line 3 of 4"),
    "a line doubled": (lambda at: replace_line(at, 2, *2 * [lines(at)[2]]), "line 4 of 6"),
    "a line broken": (lambda at: replace_line(at, 2, b'{"state": "acc\n'), "line 3 of 5"),
    "an accepted line without its end": (lambda at: truncate(at, -1), "not complete"),
    "lines exchanged": (lambda at: replace_line(at, 1, lines(at)[3]), "line 2 of 5"),
}


@pytest.mark.parametrize("how", LOST)
def test_without_its_record_no_command_works_and_the_reports_say_why(place, how):
    at = place()
    break_it, words = LOST[how]
    break_it(at)
    for command in [*readers(at), *writers(at), ("serve", at.ws, "--port", 0)]:
        ran = refused(at.ws, *command)
        assert words in ran.err, ran.err
        assert how in ("of another workspace", "a folder") or "shardgraph record" in ran.err
    reports(at, words)
    if how == "missing":
        assert not at.record.exists(), "nothing makes a new one without being asked"


# a copy that is older than the cut cannot know what was cut off
FOUND = {how: known for how, known in {**LOST, **DAMAGED}.items() if known[1] != "lacks lines"}


@pytest.mark.parametrize("how", FOUND)
def test_a_restored_copy_with_a_bad_record_is_refused_by_every_command(place, how):
    at = place("backup")
    break_it, words = FOUND[how]
    break_it(at)
    for command in [*readers(at), *writers(at), ("serve", at.ws, "--port", 0)]:
        assert words in refused(at.ws, *command).err
    reports(at, words)


def test_bits_that_flip_anywhere_bring_no_sample_back(place):
    """In a restored copy every command refuses; where the workspace is up to date, it also may answer, and rightly."""
    draw, at = random.Random(SEED), place("backup")
    whole = at.record.read_bytes()
    commands = [*readers(at), *writers(at), ("verify", at.ws), ("record", at.ws), ("serve", at.ws, "--port", 0)]
    for turn in range(FLIPS):
        raw, bit = bytearray(whole), draw.randrange(8 * len(whole))
        raw[bit // 8] ^= 1 << bit % 8
        at.record.write_bytes(raw)
        for command in (commands[turn % len(commands)], commands[(turn + 7) % len(commands)]):
            ran = run(*command)
            assert ran.code == 1, f"bit {bit}, {command[0]}: {ran}"
            assert re.search("damaged|no record|another workspace|not complete", ran.err + ran.out), ran
        assert at.record.read_bytes() == raw and set(GONE) <= held(at.ws)
    at = place()
    good = run("predict", at.ws, at.data / "more.npz", "--json").out
    for turn in range(FLIPS):
        raw, bit = bytearray(whole), draw.randrange(8 * len(whole))
        raw[bit // 8] ^= 1 << bit % 8
        at.record.write_bytes(raw)
        if turn % 2:
            ran = run("predict", at.ws, at.data / "more.npz", "--json")
            assert ran.out == good or ran.json["error"], f"bit {bit}"
        else:
            ran = run("train", at.ws)
            assert ran.code == 1 or at.record.read_bytes() == whole, f"bit {bit}: refused, or mended from the ledger"
        assert not held(at.ws) & set(GONE)


def test_a_restored_copy_answers_nothing_until_a_command_that_writes_has_forgotten_again(place):
    at = place("backup")
    assert held(at.ws) >= set(GONE)
    for command in readers(at):
        ran = refused(at.ws, *command)
        assert "2 requests" in ran.err and f"`shardgraph repair {at.ws}`" in ran.err
    reports(at, "2 requests", f"`shardgraph repair {at.ws}`")
    ran = run("repair", at.ws)
    assert ran.code == 0 and "carried out again: 2" in ran.err
    assert run("verify", at.ws, "--full").code == 0
    assert run("status", at.ws, "--json").json["record"]["ok"]
    never = place()
    digest = run("status", never.ws, "--json").json["model_digest"]
    at = place("backup")
    for number, command in enumerate(writers(at)):
        at = place("backup")
        ran = run(*command)
        assert ran.code == 0 and "carried out again: 2" in ran.err, ran
        assert not held(at.ws) & set(GONE), command
        if command[0] in ("train", "repair", "source"):
            assert run("status", at.ws, "--json").json["model_digest"] == digest
        again = run(*readers(at)[number % 2])
        assert again.code == 0 and not again.err


def test_a_forget_of_what_the_record_forgets_again_is_done_already(place):
    at = place("backup")
    ran = run("forget", at.ws, "--yes", "--sample", GONE[0], "--json")
    assert ran.code == 0 and ran.json["already_forgotten"]


def read_only(at: Place) -> None:
    """Make a record that can be read and not written, for root, too: a file in memory that is sealed."""
    if os.geteuid():
        at.record.chmod(0o444)
        return
    sealed = os.memfd_create("record", os.MFD_ALLOW_SEALING)
    os.write(sealed, at.record.read_bytes())
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    (at.ws / "record").write_text(f"/proc/self/fd/{sealed}")


def test_with_a_record_that_cannot_be_written_nothing_is_accepted_and_the_rest_works(place):
    at = place()
    read_only(at)
    for command in (*readers(at), ("verify", at.ws), ("status", at.ws), ("record", at.ws)):
        assert run(*command).code == 0, command
    assert "cannot be written" in refused(at.ws, "forget", at.ws, "--yes", "--sample", "s-002").err
    assert "s-002" in held(at.ws) and run("train", at.ws).code == 0
    np.savez(at.record.parent / "gone.npz", **{name: values[1:2] for name, values in arrays(30).items()})
    back = run("add", at.ws, at.data / "gone.npz", "--allow-return")
    assert back.code == 1 and "cannot be written" in back.err and "the workspace has committed this" in back.err
    later = run("train", at.ws)
    assert later.code == 1 and "cannot be written" in later.err, "until the line is written"


def test_a_restored_copy_whose_record_cannot_be_written_forgets_all_the_same(place):
    at = place("backup")
    read_only(at)
    assert "2 requests" in refused(at.ws, "predict", at.ws, at.data / "more.npz").err
    assert run("repair", at.ws).code == 0 and not held(at.ws) & set(GONE)


def test_a_sample_that_came_back_is_not_forgotten_by_a_restored_copy(place, base):
    at = place()
    assert run("add", at.ws, base / "gone.npz", "--allow-return").code == 0
    assert run("verify", at.ws).code == 0
    newer = at.record.read_bytes()
    at = place("backup")
    at.record.write_bytes(newer)
    assert "1 request " in refused(at.ws, "evaluate", at.ws).err
    assert run("train", at.ws).code == 0
    assert GONE[0] in held(at.ws) and GONE[1] not in held(at.ws)


# Beginning a new record


@pytest.mark.parametrize("how", LOST)
def test_an_up_to_date_workspace_loses_nothing_with_its_record(place, how):
    at = place()
    LOST[how][0](at)
    new = at.record.with_name("new.jsonl")
    begun = run("record", at.ws, "--new", new, "--json")
    assert begun.code == 0 and begun.json["record"] == str(new) and begun.json["wrong_with_the_old"]
    assert run("verify", at.ws).code == 0 and run("forget", at.ws, "--yes", "--sample", "s-002").code == 0
    at = place("backup")
    (at.ws / "record").write_text(str(new))
    assert "2 requests" in refused(at.ws, "evaluate", at.ws).err
    assert run("train", at.ws).code == 0
    assert not held(at.ws) & {*GONE, "s-002"}, "the new record holds what the old one held"


@pytest.mark.parametrize(
    ("how", "wrong", "back"),
    [
        ("missing", "it could not be read", set(GONE)),
        ("empty", "it could not be read", set(GONE)),
        ("of another workspace", "it could not be read", set(GONE)),
        ("a digit of a mark", "1 of its lines could not be read", {GONE[0]}),
        ("a line broken", "1 of its lines could not be read", set()),
        ("an accepted line without its end", "1 of its lines could not be read", set()),
    ],
)
def test_a_restored_copy_takes_what_can_be_read_of_a_bad_record_and_says_what_is_lost(place, how, wrong, back):
    at = place("backup")
    {**LOST, **DAMAGED}[how][0](at)
    begun = run("record", at.ws, "--new", at.record.with_name("new.jsonl"), "--json")
    assert begun.code == 0 and begun.json["wrong_with_the_old"] == wrong
    assert f"the old record is lost in part: {wrong}" in begun.err
    assert held(at.ws) & set(GONE) == back
    assert run("verify", at.ws).code == 0 and run("predict", at.ws, at.data / "more.npz").code == 0


def test_a_whole_record_is_followed_by_another_without_loss(place):
    at = place("backup")
    begun = run("record", at.ws, "--new", at.record.with_name("new.jsonl"), "--json")
    assert begun.code == 0 and begun.json["wrong_with_the_old"] is None and "lost" not in begun.err
    assert not held(at.ws) & set(GONE)


def test_a_new_record_needs_a_new_file_outside_the_workspace(place):
    at = place()
    assert "exists" in refused(at.ws, "record", at.ws, "--new", at.record).err
    assert "outside" in refused(at.ws, "record", at.ws, "--new", at.ws / "inside.jsonl").err
    assert "cannot be written" in refused(at.ws, "record", at.ws, "--new", at.record.parent / "none" / "r.jsonl").err


def test_record_shows_the_record_or_that_there_is_none(place, tmp_path):
    at = place()
    assert run("record", at.ws, "--json").json["record"] == str(at.record)
    assert "2 requests in 5 lines, chained" in run("record", at.ws).out
    assert run("init", tmp_path / "ws").code == 0
    assert run("record", tmp_path / "ws", "--json").json == {"record": None}
    assert "no record is kept" in run("record", tmp_path / "ws").err


# The service


def served(at: Place, *options: object) -> tuple[subprocess.Popen, list[dict]]:
    """A service, and what it wrote until it listened."""
    words = [sys.executable, "-m", "shardgraph.cli.main", "serve", str(at.ws), "--port", "0", *map(str, options)]
    process, found = subprocess.Popen(words, stderr=subprocess.PIPE, text=True), []
    assert process.stderr is not None
    for line in process.stderr:
        found += [json.loads(line)] if line.startswith("{") else []
        if found and found[-1]["event"] == "listening":
            break
    return process, found


def test_serve_forgets_again_before_it_answers(place):
    at = place("backup")
    process, wrote = served(at, "--record", at.record)
    try:
        assert {"event": "restored workspace", "samples": 2}.items() <= wrote[0].items()
        end = time.monotonic() + 60
        while held(at.ws) & set(GONE):
            assert time.monotonic() < end, "this took too long"
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert run("verify", at.ws).code == 0


def test_serve_does_not_make_a_record_where_one_should_be(place):
    at = place()
    at.record.unlink()
    ran = refused(at.ws, "serve", at.ws, "--port", 0, "--record", at.record)
    assert "is missing" in ran.err and "shardgraph record" in ran.err and not at.record.exists()
    assert isinstance(ran, Ran)
