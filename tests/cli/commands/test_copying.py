"""`init NEW --from OLD`: a second workspace with the samples of the first, and with nothing else of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.files import WriteLock
from shardgraph.storage.tables import inventory
from tests.cli.conftest import TRAIN, misused, refused, run, state

KILLED = """
import os, sys
from pathlib import Path
from shardgraph.cli.main import main

left, move = int(sys.argv.pop(1)), Path.rename

def rename(path, target):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return move(path, target)

Path.rename = rename
main()
"""


def rows(ws: Path) -> list[tuple[str, ...]]:
    """All samples as the catalogue lists them, without where they are."""
    with Workspace(ws) as workspace:
        catalogue = workspace.context.catalogue
        found = inventory.find_by_id(catalogue, inventory.all_ids(catalogue))
    return [(row.id, row.label, row.source, row.subject, row.split) for row in found]


def names_in(ws: Path) -> bytes:
    return b"".join(path.read_bytes() for path in ws.rglob("*") if path.is_file())


def test_a_copy_holds_the_samples_and_gives_the_same_model(ws: Path, tmp_path: Path):
    forgot = run("forget", ws, "--yes", "--sample", "s-001", "--sample", "s-005", "--json").json
    new = tmp_path / "new"
    made = run("init", new, "--from", ws, "--seed", 1, "--json").json
    assert made["samples"] == run("status", ws, "--json").json["samples"] and made["left_out"] == 0
    assert (made["backbone"], made["dtype"], made["classes"]) == ("precomputed", "float16", None)
    assert rows(new) == rows(ws) and len(rows(new)) == 58
    trained = run("train", new, *TRAIN, "--json").json
    assert trained["model_digest"] == forgot["model_digest"]
    assert run("verify", new, "--full").code == run("verify", ws, "--full").code == 0


def test_a_copy_can_be_trained_otherwise_without_the_data(ws: Path, tmp_path: Path):
    new = tmp_path / "new"
    assert run("init", new, "--from", ws, "--seed", 2).code == 0
    assert run("train", new, "--topology", "by-source", "--recipe", "linear", "--epochs", 1).code == 0
    assert run("evaluate", new).code == 0


def test_nothing_else_is_copied(ws: Path, tmp_path: Path):
    run("source", ws, "ann", "--owner", "Ann Somebody")
    run("grant", ws, "acme", "--source", "ann")
    run("forget", ws, "--yes", "--sample", "s-001", "--label", "dog")
    new = tmp_path / "new"
    assert run("init", new, "--from", ws).code == 0
    raw = names_in(new)
    assert b"s-002" in raw, "the search works"
    for name in (b"s-001", b"dog", b"Ann Somebody", b"acme"):
        assert name not in raw
    for name in ("secret.key", "signing.key", "public.key"):
        assert (new / name).read_bytes() != (ws / name).read_bytes()
    assert sorted(path.name for path in new.iterdir() if path.name != "scratch") == [
        "catalog.sqlite", "config.json", "inbox", "lock", "public.key", "secret.key", "signing.key",
    ]  # fmt: skip
    assert run("status", new, "--json").json["requests"] == {} and run("certificate", new).code == 1


def test_an_untrained_workspace_of_another_type_can_be_copied(tmp_path: Path, data: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    run("init", old, "--seed", 1, "--dtype", "float32")
    run("add", old, data / "data.npz")
    made = run("init", new, "--from", old, "--classes", "ant,bee,cat,dog,elk", "--json").json
    assert made["dtype"] == "float32" and made["classes"] == 5 and rows(new) == rows(old)


def test_samples_whose_request_waits_are_left_out(ws: Path, tmp_path: Path):
    with Workspace(ws) as workspace:
        workspace.queue.submit(Submission(ForgetRequest(sources=("ann",))))
    new = tmp_path / "new"
    made = run("init", new, "--from", ws, "--json").json
    assert made["left_out"] == 20 and b"s-003" not in names_in(new) and len(rows(new)) == 40


def test_a_damaged_file_of_the_old_one_is_found_and_nothing_is_made(ws: Path, tmp_path: Path):
    path = next((ws / "shards").rglob("*.safetensors"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert path.name in refused(ws, "init", tmp_path / "new", "--from", ws).err
    assert not (tmp_path / "new").exists()
    path.write_bytes(whole)
    assert run("init", tmp_path / "new", "--from", ws).code == 0


def test_ctrl_c_leaves_nothing_and_the_old_one_as_it_was(ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    new, before, sync, left = tmp_path / "new", state(ws), os.fsync, [40]

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        assert run("init", new, "--from", ws).code == 130
    assert left[0] < 0 and not new.exists() and state(ws) == before
    assert run("init", new, "--from", ws).code == 0


@pytest.mark.parametrize("moves", range(0, 8))
def test_a_killed_copy_is_no_workspace_and_can_be_made_again(ws: Path, tmp_path: Path, moves: int):
    """Killed before each of the moves at the end; the last one makes it a workspace."""
    new = tmp_path / "new"
    words = [sys.executable, "-c", KILLED, str(moves), "init", str(new), "--from", str(ws), "--seed", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        assert moves >= 7
        return
    assert done.returncode == 9, done.stderr
    assert "no workspace" in run("status", new).err
    assert run("init", new, "--from", ws, "--seed", 1).code == 0
    assert rows(new) == rows(ws) and not list(new.glob(".*"))


def test_a_copy_that_another_process_makes_just_now_is_left_alone(ws: Path, tmp_path: Path):
    building = tmp_path / "new" / ".shardgraph-copy"
    building.mkdir(parents=True)
    with WriteLock(building):
        assert "another process" in refused(ws, "init", tmp_path / "new", "--from", ws).err
    assert run("init", tmp_path / "new", "--from", ws).code == 0


def test_a_folder_with_files_of_ones_own_is_left_alone(ws: Path, tmp_path: Path):
    new = tmp_path / "new"
    (new / ".shardgraph-copy").mkdir(parents=True)
    (new / "letter.txt").write_text("mine")
    assert "not empty" in refused(ws, "init", new, "--from", ws).err
    assert "not empty" in run("init", new).err and (new / "letter.txt").read_text() == "mine"


def test_what_makes_no_sense(ws: Path, tmp_path: Path):
    new = tmp_path / "new"
    for flags in (("--backbone", "minilm"), ("--dtype", "float32"), ("--layer", 1), ("--size", 9), ("--device", "cpu")):
        misused(ws, "init", new, "--from", ws, *flags)
    assert "within" in refused(ws, "init", ws / "new", "--from", ws).err
    assert "no workspace" in refused(ws, "init", new, "--from", tmp_path / "nowhere").err
    assert "not empty" in refused(ws, "init", ws, "--from", ws).err
    assert not new.exists() and not (ws / "new").exists()


def test_images_need_not_be_embedded_again(tmp_path: Path):
    """The identity of the backbone is taken over, so that later images are embedded by the same one."""
    old, new = tmp_path / "old", tmp_path / "new"
    identity = {"name": "some-network", "modality": "image", "weights": "0" * 64}
    with Workspace.create(old, seed=1, backbone=identity) as workspace:
        backbone = workspace.config.backbone
    with Workspace.create(new, seed=2, copy_from=old) as copy:
        assert copy.config.backbone == backbone and copy.config.seed == 2 and copy.config.dims is None
    shutil.rmtree(new)
    with pytest.raises(Exception, match="give none"):
        Workspace.create(new, seed=2, copy_from=old, dtype="float32")


def test_equal_bytes_of_samples(ws: Path, tmp_path: Path):
    new = tmp_path / "new"
    run("init", new, "--from", ws, "--seed", 1)
    run("train", new, *TRAIN)
    old_files = {path.name: path.read_bytes() for path in (ws / "shards").rglob("*") if path.is_file()}
    assert old_files == {path.name: path.read_bytes() for path in (new / "shards").rglob("*") if path.is_file()}
    assert old_files
