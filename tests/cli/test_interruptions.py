"""Ctrl-C, crashes and questions on a terminal."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shardgraph import ForgetRequest, Workspace
from shardgraph.forget.erase import execute
from tests.cli.conftest import run, state

SHARDGRAPH = [sys.executable, "-m", "shardgraph.cli.main"]


def test_ctrl_c_ends_with_130_and_the_next_command_continues_the_work(untrained: Path):
    ws = untrained
    words = ["train", str(ws), "--coarse", "2", "--epochs", "1000000", "--workers", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heeded = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  which a shell's background jobs ignore
    with subprocess.Popen([*SHARDGRAPH, *words], **pipes, preexec_fn=heeded) as process:
        _wait_for(lambda: json.loads((ws / "config.json").read_text())["recipe"])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and "continues" in err and "Traceback" not in err
    assert run("status", ws, "--json").json["trained"]
    assert run("forget", ws, "--yes", "--sample", "s-001", "--instant").code == 0  # which placed what was on its way


@pytest.mark.parametrize("command", ["status", "verify", "evaluate", "repair", "train", "certificate"])
def test_every_command_finishes_an_interrupted_forget(ws: Path, command: str):
    _interrupt_a_forget(ws, "s-001")
    done = run(command, ws)
    assert done.code == 0 and "certificate 1" in done.err
    assert run("forget", ws, "--yes", "--sample", "s-001", "--json").json["already_forgotten"]


def test_json_stays_alone_on_standard_output_while_a_forget_is_finished(ws: Path):
    _interrupt_a_forget(ws, "s-001")
    done = run("status", ws, "--json")
    assert done.json["requests"] == {"done": 1} and "certificate 1" in done.err


def test_plan_changes_nothing_even_then(ws: Path):
    _interrupt_a_forget(ws, "s-001")
    assert run("plan", ws, "--sample", "s-002").code == 0
    with Workspace(ws) as workspace:
        assert workspace.status()["requests"] == {"accepted": 1}


def test_a_terminal_is_asked_and_no_means_no(ws: Path):
    code, shown = _on_a_terminal(["forget", str(ws), "--sample", "s-001"], b"n\n")
    assert code == 1 and b"Forget 1 samples" in shown
    assert run("status", ws, "--json").json["requests"] == {}


def test_ctrl_c_at_the_question_says_that_nothing_was_forgotten(ws: Path):
    code, shown = _on_a_terminal(["forget", str(ws), "--sample", "s-001"], b"", interrupt_at=b"[y/N]")
    assert code == 130 and b"nothing was forgotten" in shown and b"continues" not in shown
    assert run("status", ws, "--json").json["requests"] == {}


@pytest.mark.parametrize(
    ("module", "name", "said", "requests"),
    [
        (shutil, "disk_usage", "nothing was forgotten", {}),  # looked at before anything changes
        (os, "replace", "the next command continues the work", {"done": 1}),  # files are rewritten from acceptance on
    ],
    ids=["before", "after"],
)
def test_ctrl_c_says_whether_the_request_was_accepted(
    ws: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str, said: str, requests: dict
):
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, ctrl_c)
        done = run("forget", ws, "--yes", "--sample", "s-001")
    assert done.code == 130 and done.out == "" and said in done.err and len(done.err.splitlines()) == 1
    assert run("status", ws, "--json").json["requests"] == requests


def test_yes_is_not_asked_on_a_terminal(ws: Path):
    code, shown = _on_a_terminal(["forget", str(ws), "--sample", "s-001", "--yes"], b"")
    assert code == 0 and b"permanently" not in shown and b"training" in shown  # the bar


def test_a_script_is_not_asked_and_must_say_yes(ws: Path):
    before = state(ws)
    for more in ((), ("--json",)):
        refused = run("forget", ws, "--source", "bob", *more, stdin="y\n")
        assert refused.code == 2 and refused.out == "" and "--yes" in refused.err
    assert state(ws) == before
    done = run("forget", ws, "--yes", "--sample", "s-001", stdin="")
    assert done.code == 0 and "?" not in done.out + done.err


def _interrupt_a_forget(ws: Path, sample: str) -> None:
    """Leave a request accepted and nothing more, as a kill would."""
    with Workspace(ws) as workspace:
        orders = workspace.plan(ForgetRequest(samples=(sample,)))
        execute.accept(workspace.context, orders, instant=False)


def _on_a_terminal(words: list[str], typed: bytes, interrupt_at: bytes | None = None) -> tuple[int, bytes]:
    """Run with standard input and error on a terminal, with a Ctrl-C at some words; the exit code and what it said."""
    ours, theirs = os.openpty()
    os.write(ours, typed)
    heeded = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    process = subprocess.Popen(
        [*SHARDGRAPH, *words], stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, preexec_fn=heeded
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
            if interrupt_at is not None and interrupt_at in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    return process.wait(timeout=60), shown


def _wait_for(there: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not there():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
