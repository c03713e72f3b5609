"""`shardgraph serve` as a process: its lock, its address, its end, and the commands beside it."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from shardgraph.forget.workspace import Workspace
from tests.cli.conftest import run
from tests.service.processes import COMMAND, ENVIRONMENT, Process
from tests.strategies import BY_SOURCE, ROWS, never_saw, promised_files


def command(*words):
    done = subprocess.run([*COMMAND, *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_service_its_worker_the_command_line_beside_it_and_a_clean_end(root, fast_path):
    with Process(root) as service:
        service.until_ready()
        sample, other = BY_SOURCE["ann"][0].id, BY_SOURCE["bob"][0].id
        assert service.client.post("/requests", json={"samples": [sample]}).json()["state"] == "instant"
        code, out, err = command("forget", root, "--yes", "--sample", other, "--json")
        assert code == 0 and json.loads(out)["guarantee"].startswith("exact"), err
        assert [one["state"] for one in service.until_done([1, 2])] == ["done", "done"]
        assert service.client.get("/requests/2").json()["asker"] == "command line"
        code, _, err = command("serve", root, "--port", 0)
        assert code == 1 and "another process is serving" in err
        assert service.end() == 0
        assert service.log[-1]["event"] == "ended"
    with Workspace(root) as workspace:
        kept = [row for row in ROWS if row.id not in (sample, other)]
        assert promised_files(root) == never_saw(workspace, kept, fast_path / "never")
        assert workspace.verify().ok


def test_killed_after_it_accepted_it_goes_on_after_the_next_start(root):
    with Process(root, "--grace", "3600") as service:
        service.until_ready()
        assert service.client.post("/requests", json={"samples": [ROWS[0].id]}).status_code == 202
        held = service.client.get("/ready").json()["state"]
        assert service.client.get(f"/states/{held}").json()["withheld"] == [1]
        service.kill()
    with Process(root) as service:
        service.until_ready()
        assert service.until_done([1])[0]["state"] == "done"
        service.end()


def test_an_open_stream_ends_with_the_service(root):
    with Process(root, "--grace", "3600") as service, ThreadPoolExecutor(1) as pool:
        service.until_ready()
        assert service.client.post("/requests", json={"samples": [ROWS[0].id]}).status_code == 202
        stream = pool.submit(httpx.get, f"http://127.0.0.1:{service.port}/requests/1/events", timeout=60)
        time.sleep(1)
        assert service.end() == 0
        assert "event: instant" in stream.result().text  # and a stream that is cut raises
        assert not [line for line in service.log if line["event"] in ("unexpected", "uvicorn.error", "text")]


SIGNALLED = """
import os, signal, sys
from pathlib import Path
from shardgraph.service.server import serve

class Signalling:
    def write(self, text):
        sys.__stderr__.write(text)
        if '"listening"' in text:
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    def flush(self):
        sys.__stderr__.flush()

sys.stderr = Signalling()
serve(Path(sys.argv[1]), port=0)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_before_the_server_runs_ends_the_service(root, name):
    words = [sys.executable, "-c", SIGNALLED, str(root), name]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["event"] == "ended"


def test_another_address_than_loopback_needs_tokens(root):
    code, _, err = command("serve", root, "--host", "0.0.0.0", "--port", 0)
    assert code == 1 and "no tokens" in err
    assert "Traceback" not in err


def test_originals_that_are_nowhere_are_found_before_it_listens(root, tmp_path):
    code, _, err = command("serve", root, "--port", 0, "--originals", tmp_path / "nowhere")
    assert code == 1 and "nowhere is none" in err and "listening" not in err


def test_a_certificate_is_checked_with_the_public_key_and_nothing_else(root, tmp_path):
    forgot = run("forget", root, "--yes", "--sample", ROWS[0].id, "--json").json
    key = (root / "public.key").read_text().strip()
    lonely = tmp_path / "certificate.json"
    lonely.write_bytes(open(forgot["certificate_file"], "rb").read())  # noqa: PTH123, SIM115
    assert run("verify-certificate", lonely, "--public-key", key, "--json").json["ok"]
    lonely.write_text(lonely.read_text().replace("exact", "exakt"))
    assert run("verify-certificate", lonely, "--public-key", key).code == 1


@pytest.mark.parametrize("name", ["signing.key", "secret.key"])
def test_keys_are_their_owners_alone(root, name):
    assert (root / name).stat().st_mode & 0o777 == 0o600
