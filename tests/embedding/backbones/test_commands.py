"""One's own backbone through every command: saved under a path with a space, named relative or absolute, then moved."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli.conftest import Ran, refused, run
from tests.forget.intake.test_raw_inputs import pictures, texts, write
from tests.service.processes import COMMAND, ENVIRONMENT, Process

VARIABLE = "SHARDGRAPH_BACKBONE"
TRAIN = ("--coarse", 2, "--fine", 1, "--epochs", 2, "--device", "cpu")
MODULE = """
import numpy as np
import torch
import shardgraph

class Patches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 12, 8, 8)
        self.norm = torch.nn.BatchNorm2d(12)
        generator = torch.Generator().manual_seed(0)
        for weight in self.parameters():
            weight.data = torch.rand(weight.shape, generator=generator) / SCALE

    def forward(self, pixels):
        return self.norm(self.patches(pixels)) FORWARD

def transform(image):
    return torch.from_numpy(np.array(image.resize((32, 32)), np.float32).transpose(2, 0, 1) / 255)

def build():
    return shardgraph.register_backbone("patches", Patches(), transform)
"""


def module_text(scale: int = 10, forward: str = "") -> str:
    return MODULE.replace("SCALE", str(scale)).replace("FORWARD", forward)


def run_alone(*words: object, cwd: Path | None = None, **variables: str) -> Ran:
    """Run `shardgraph WORDS` in a process of its own, as a person does."""
    line = [*COMMAND, *map(str, words)]
    done = subprocess.run(line, env=ENVIRONMENT | variables, cwd=cwd, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Model:
    """A model in the folder `my models`, how the command line names it, and the data that it reads."""

    folder: Path
    name: str
    kind: str
    rows: list[dict]
    run: Callable[..., Ran]

    def spec(self, folder: Path) -> str:
        return f"{self.kind}:{self.place(folder)}"

    def place(self, folder: Path) -> str:
        return f"{folder / self.name}{':build' if self.kind == 'python' else ''}"

    def given(self, folder: Path) -> str:
        """What --backbone-path takes."""
        return self.spec(folder) if self.kind == "python" else self.place(folder)

    def change(self) -> None:
        """Change the weights, and nothing else."""
        path = self.folder / self.name
        if self.kind == "python":
            path.with_suffix(".py").write_text(module_text(scale=11))
            return
        path = path / "model.safetensors" if path.is_dir() else path
        weights = load_file(path)
        first = next(name for name, tensor in sorted(weights.items()) if tensor.dtype == torch.float32)
        weights[first] = weights[first] + 0.5
        save_file(weights, path, {"format": "pt", "num_heads": "2"})


@pytest.fixture(params=["hf-vit", "hf-bert", "vit", "python"])
def model(request, tmp_path, monkeypatch) -> Model:
    folder = tmp_path / "my models"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    if request.param == "python":
        (folder / "mymodel.py").write_text(module_text())
        return Model(folder, "mymodel", "python", pictures(), run_alone)
    if request.param == "vit":
        shutil.copy(request.getfixturevalue("vit_file"), folder / "tiny vit.safetensors")
        return Model(folder, "tiny vit.safetensors", "vit", pictures(), run)
    kind = request.param.removeprefix("hf-")
    shutil.copytree(request.getfixturevalue(f"hf_{kind}_folder"), folder / f"my {kind}")
    return Model(folder, f"my {kind}", "hf", texts() if kind == "bert" else pictures(), run)


def good(ran: Ran) -> dict:
    assert ran.code == 0, ran.err
    return ran.json


def test_a_model_of_ones_own_goes_through_every_command_and_may_move(model, tmp_path, monkeypatch):
    command = model.run
    first, more = write(model.rows[:24], tmp_path / "first"), write(model.rows[24:], tmp_path / "more")
    relative = Path("my models")
    trust = ("--backbone-path", model.given(model.folder)) if model.kind == "python" else ()

    # init with a relative path, the rest from another folder; beside it, a workspace with the absolute path
    made = good(command("init", "one", "--seed", 3, "--backbone", model.spec(relative), "--device", "cpu", "--json"))
    assert made["backbone_path"] == model.given(model.folder)
    good(command("init", "two", "--seed", 3, "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    one, two = tmp_path / "one", tmp_path / "two"
    assert (one / "config.json").read_bytes() == (two / "config.json").read_bytes()
    assert str(tmp_path) not in (one / "config.json").read_text()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    digests = []
    for ws in (one, two)[: 1 if model.kind == "python" else 2]:  # a process of its own for each command takes long
        assert good(command("add", ws, first, *trust, "--json"))["added"] == 24
        digests.append(good(run("train", ws, *TRAIN, "--json"))["model_digest"])
    assert len(set(digests)) == 1
    predicted = good(command("predict", one, more, *trust, "--json"))["predictions"]
    assert len(predicted) == 6

    # moved: what needs no backbone works as before, what needs one names where it was and what is wanted
    moved = tmp_path / "moved models"
    model.folder.rename(moved)
    shutil.rmtree(moved / "__pycache__", ignore_errors=True)
    assert good(run("evaluate", one, "--json"))["samples"] == 4
    good(run("twins", one, "--json"))
    weights = json.loads((one / "config.json").read_text())["backbone"]["weights"]
    lost = refused(one, "add", one, more) if command is run else command("add", one, more, *trust)
    assert lost.code == 1 and str(model.folder) in lost.err and "--backbone-path" in lost.err and VARIABLE in lost.err
    assert weights in lost.err and "found none" in lost.err
    monkeypatch.setenv(VARIABLE, model.given(moved))
    if command is run_alone:
        assert good(run_alone("predict", one, more, "--json", **{VARIABLE: model.given(moved)}))["samples"] == 6
    else:
        assert good(run("predict", one, more, "--json"))["predictions"] == predicted
    monkeypatch.delenv(VARIABLE)
    assert good(command("add", one, more, "--backbone-path", model.given(moved), "--json"))["added"] == 6
    if model.kind != "python":
        assert good(command("predict", one, more, "--json"))["samples"] == 6, "`add` keeps the new place"

    # forgetting and its proof, then the service
    good(run("forget", one, "--yes", "--sample", "raw-07", "--json"))
    assert good(run("verify", one, "--full", "--json"))["ok"]
    given = ("--backbone-path", model.given(moved))
    with Process(one, *given).until_ready() as service:
        check_served(service.client, model)
        assert service.end() == 0
    assert model.run("serve", one, "--port", 0, "--backbone-path", model.given(tmp_path / "nowhere")).code == 1


def check_served(client: httpx.Client, model: Model) -> None:
    if "text" in model.rows[0]:
        answer = client.post("/predictions/texts", json={"texts": ["cancel my card"]})
    else:
        answer = client.post("/predictions/images", files=[("files", model.rows[0]["image"])])
    assert answer.status_code == 200 and len(answer.json()["predictions"]) == 1, answer.text


def test_a_changed_model_is_refused_with_both_digests_and_nothing_is_added(model, tmp_path):
    ws, table = tmp_path / "ws", write(model.rows, tmp_path / "rows")
    trust = ("--backbone-path", model.given(model.folder)) if model.kind == "python" else ()
    good(model.run("init", ws, "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    good(model.run("init", tmp_path / "same", "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    model.change()
    good(model.run("init", tmp_path / "other", "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    before, same, after = (
        json.loads((tmp_path / name / "config.json").read_text())["backbone"]["weights"]
        for name in ("ws", "same", "other")
    )
    assert before == same != after
    failed = refused(ws, "add", ws, table) if model.run is run else model.run("add", ws, table, *trust)
    assert failed.code == 1 and model.given(model.folder) in failed.err
    assert f"weights must be {before}, found {after}" in failed.err
    assert run("status", ws, "--json").json["samples"] == {"train": 0, "test": 0}


def test_a_model_that_is_not_there_makes_no_workspace(model, tmp_path):
    shutil.rmtree(model.folder)
    failed = model.run("init", tmp_path / "ws", "--backbone", model.spec(model.folder))
    assert failed.code == 1 and failed.err.startswith("error: ") and model.name in failed.err
    assert len(failed.err.splitlines()) == 1 and not (tmp_path / "ws").exists()


@pytest.mark.parametrize("model", ["python"], indirect=True)
def test_the_word_of_a_workspace_runs_no_code(model, tmp_path):
    ws, table = tmp_path / "ws", write(model.rows, tmp_path / "rows")
    good(run_alone("init", ws, "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    (model.folder / "mymodel.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{module_text()}")
    failed = run_alone("add", ws, table)
    assert failed.code == 1 and "registered in every process" in failed.err and not (tmp_path / "ran").exists()
    assert f"--backbone-path '{model.given(model.folder)}'" in failed.err
    assert good(run_alone("add", ws, table, "--json", **{VARIABLE: model.given(model.folder)}))["added"] == 30
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("model", ["python"], indirect=True)
def test_a_module_whose_bits_depend_on_its_company_is_refused(model, tmp_path):
    ws, table = tmp_path / "ws", write(model.rows, tmp_path / "rows")
    good(run_alone("init", ws, "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    (model.folder / "mymodel.py").write_text(module_text(forward="- pixels.mean()"))
    for words in (
        ("init", tmp_path / "new", "--backbone", model.spec(model.folder)),
        ("add", ws, table, "--backbone-path", model.given(model.folder)),
    ):
        failed = run_alone(*words)
        assert failed.code == 1 and "must not depend on its company" in failed.err, failed.err
    assert not (tmp_path / "new").exists()
    assert run("status", ws, "--json").json["samples"] == {"train": 0, "test": 0}


@pytest.mark.parametrize("model", ["python"], indirect=True)
def test_a_forward_that_changed_over_the_same_weights_is_refused(model, tmp_path):
    ws, table = tmp_path / "ws", write(model.rows, tmp_path / "rows")
    good(run_alone("init", ws, "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    (model.folder / "mymodel.py").write_text(module_text(forward="* 2"))
    failed = run_alone("add", ws, table, "--backbone-path", model.given(model.folder))
    assert failed.code == 1 and "other ['probe']" in failed.err


@pytest.mark.parametrize("model", ["hf-vit"], indirect=True)
def test_a_workspace_that_knows_no_location_asks_for_one(model, tmp_path):
    """As those of earlier versions do, which kept none."""
    ws, table = tmp_path / "ws", write(model.rows, tmp_path / "rows")
    good(run("init", ws, "--backbone", model.spec(model.folder), "--device", "cpu", "--json"))
    (ws / "backbone.json").unlink()
    told = refused(ws, "add", ws, table).err
    assert "does not say where its backbone hf:vit lies" in told and "--backbone-path" in told
    assert good(run("add", ws, table, "--backbone-path", os.path.relpath(model.given(model.folder)), "--json"))
    assert json.loads((ws / "backbone.json").read_text()) == {"location": model.given(model.folder)}
    (ws / "backbone.json").write_text("{")
    assert "torn" in refused(ws, "add", ws, table).err


def test_a_backbone_that_pip_installs_has_no_path(tmp_path):
    for words in (("--backbone", "minilm"), ("--backbone", "precomputed"), ()):
        failed = run("init", tmp_path / "ws", *words, "--backbone-path", "x")
        assert failed.code == 1 and "got" in failed.err and not (tmp_path / "ws").exists()


PAGE = Path(__file__).parents[3] / "docs" / "backbones.md"


def test_the_commands_of_the_page_run_as_they_stand(hf_vit_folder, hf_bert_folder, vit_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    for source, name in ((hf_vit_folder, "vit"), (hf_bert_folder, "bert")):
        shutil.copytree(source, tmp_path / "my models" / name)
    shutil.copy(vit_file, tmp_path / "my models" / "vit.safetensors")
    (tmp_path / "mymodel.py").write_text(module_text())
    for i, row in enumerate(pictures()):
        folder = "pictures" if i < 20 else "more-pictures" if i < 26 else "new-pictures"
        place = tmp_path / folder / ("test" if i % 5 == 0 else "train") / str(row["label"])
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{row['id']}.png").write_bytes(row["image"])
    write(texts(), tmp_path / "letters")
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line)
        with monkeypatch.context() as patched:
            if words[0].startswith(f"{VARIABLE}="):
                patched.setenv(VARIABLE, words.pop(0).partition("=")[2])
            if words[0] == "mv":
                Path(words[1]).rename(words[2])
                continue
            assert words[0] == "shardgraph", line
            short = ("--epochs", 1, "--device", "cpu") if words[1] == "train" else ()
            done = run(*words[1:], *short)
        assert done.code == 0, f"{line}: {done.err}"
