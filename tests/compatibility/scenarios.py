"""Histories run through the command line, and the digests of everything that they leave.

    python -m tests.compatibility.scenarios            compare with digests.json and surface.json, exit 1 if they differ
    python -m tests.compatibility.scenarios --write    write both anew

Nothing of the package is imported but the command line's app: modules may move, and these histories stay as they are.

A step's record holds the exit code, the key paths of the JSON output ("keys"), the digest of its values, the files that
the step changed (null: removed) and the certificates that it wrote. What depends on the numerics of a machine (its
processor, the versions of torch and NumPy) is compared under equal numerics alone, see `numeric_part` and `machine`.
"random" stands for what a training with private edges draws anew each time. What later versions added to the outputs is
listed in `additions.py` and left out.
"""

import argparse
import hashlib
import json
import os
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from shardgraph.cli.main import app
from tests.compatibility.additions import as_before
from tests.compatibility.machine import machine
from tests.compatibility.samples import write_samples

HERE = Path(__file__).parent
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where temporary folders are fast
DIGESTS = HERE / "digests.json"
SECRET, SIGNING = bytes(range(32)), bytes(range(32, 64))
PROMISED = ("config.json", "manifest.json", "prototypes.safetensors", "shards", "heldout", "inbox", "models", "rights")
PLAIN = ("config.json", "shards", "heldout", "inbox")  # files that are the same on every machine
RANDOM = "random"
UNSTATED = frozenset({"time", "signature", "previous", "fingerprint", "version"})  # of a certificate
# Values of a JSON output that differ from run to run, or that are prose and may be reworded.
VOLATILE = UNSTATED | {
    "bytes", "certificate_file", "detail", "disk_bytes", "error", "out", "public_key", "report", "seconds", "token",
    "workspace", "created",
}  # fmt: skip
NAMED_BY_DATA = frozenset(
    {"nonces", "skipped", "shards", "sources"}
)  # objects whose keys are names of samples and such

Record = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """A history: commands in which WS is the workspace, DATA the samples' folder and OUT a folder for outputs."""

    name: str
    steps: tuple[str, ...]
    private: bool = False  # some adapters are drawn at random


FIRST = ("init WS --seed 1", "add WS DATA/base.npz --json")
LOOK = ("status WS --json", "evaluate WS --json", "predict WS DATA/new.npz --top-k 2 --json", "verify WS --full --json")
# What every topology and recipe goes through: previewed, a sample and a subject forgotten, others added.
LIFE = (
    "plan WS --sample s-001 --json",
    "forget WS --sample s-001 --yes --json",
    "add WS DATA/more.npz --json",
    "forget WS --subject p3 --yes --json",
    *LOOK,
)


def _trained(name: str, options: str, init: str = "", data: str = "base.npz") -> Scenario:
    """A history in which the training's options are what matters."""
    first = (f"init WS --seed 1 {init}", f"add WS DATA/{data} --json")
    epochs = "" if "--epochs" in options else " --epochs 2"
    return Scenario(name, (*first, f"train WS --device cpu{epochs} {options} --json", *LIFE))


def _forgotten(name: str, *steps: str, options: str = "--coarse 2 --fine 2", data: str = "base.npz") -> Scenario:
    """A history in which what is forgotten, and how, is what matters."""
    first = ("init WS --seed 2", f"add WS DATA/{data} --json", f"train WS --device cpu --epochs 1 {options} --json")
    return Scenario(name, (*first, *steps, *LOOK))


_SAFE = "--topology by-source --safe ann --safe bob --safe web"
_NOISE = "--private-steps 2 --epochs 1 --loss bce --adapter linear --epsilon 2 --delta 1e-20 --budget paper"

SCENARIOS = (
    # topologies
    _trained("bilevel", "--coarse 2 --fine 2"),
    _trained("bilevel-coarse", "--coarse 3 --fine 1"),
    _trained("bilevel-fine", "--coarse 1 --fine 3"),
    _trained("bilevel-across", "--topology bilevel-across --coarse 2 --fine 1"),
    _trained("by-source-bilevel", "--topology by-source-bilevel --coarse 1 --fine 2"),
    _trained("by-source", "--topology by-source"),
    _trained("by-source-safe", "--topology by-source --safe web"),
    _trained("random", "--topology random --shards 4 --degree 1"),
    _trained("complete", "--topology complete --shards 3"),
    _trained("graph-file", "--topology DATA/graph.json"),
    _trained("topology-file", "--topology DATA/topology.json"),
    _trained("balanced", "--coarse 2 --fine 2 --assignment balanced"),
    # recipes
    _trained("recipe-default", "--recipe default --coarse 2"),
    _trained("recipe-paper", "--recipe paper --coarse 2"),
    _trained("recipe-linear", "--recipe linear --coarse 2"),
    _trained("adapter-linear", "--adapter linear --coarse 2"),
    _trained("loss-bce", "--loss bce --coarse 2"),
    _trained("linear-bce", "--recipe linear --loss bce --coarse 2"),
    _trained("projection-random", "--projection random --coarse 2"),
    _trained("projection-orthogonal", "--projection orthogonal --coarse 2"),
    _trained("projection-identity", "--projection identity --heads 2 --lr 0.02 --batch 8 --coarse 2"),
    _trained("method-safe", "--method safe --coarse 2"),
    _trained("method-second", "--method second --expansion 4 --shrinkage 0.3 --mixing 0.5 --coarse 2"),
    _trained("second-without-expansion", "--expansion 0 --coarse 2"),
    _trained("no-prototypes", "--no-prototypes --coarse 2"),
    # samples
    _trained("float32", "--coarse 2 --fine 2", init="--dtype float32"),
    _trained("declared-classes", "--coarse 2 --fine 2", init="--classes ant,bee,cat,dog,elk"),
    _trained("uneven-tokens", "--coarse 2 --fine 2", data="uneven.npz"),
    _trained("uneven-tokens-linear", "--recipe linear --coarse 2", data="uneven.npz"),
    _trained("safetensors", "--coarse 2 --fine 2", data="base.safetensors"),
    Scenario(
        "features",
        (
            "init WS --seed 1 --json",
            "add WS DATA/features.npz --json",
            "train WS --device cpu --coarse 2 --fine 2 --epochs 2 --json",
            "plan WS --label bee --json",
            "forget WS --source bob --yes --json",
            "status WS --json",
            "evaluate WS --json",
            "predict WS DATA/features.npz --out OUT/predictions.csv --json",
            "verify WS --full --json",
        ),
    ),
    Scenario(
        "unnamed",
        (
            "init WS --seed 1",
            "add WS DATA/unnamed.npz --json",
            "train WS --device cpu --coarse 2 --epochs 1 --json",
            *LOOK,
        ),
    ),
    # histories
    _forgotten(
        "forget-samples",
        "plan WS --sample s-001 --sample s-002 --json",
        "forget WS --sample s-001 --sample s-002 --reason asked --yes --json",
        "forget WS --sample s-001 --yes --json",
        "forget WS --from-file DATA/ids.txt --yes --json",
        "certificate WS --nonce-for s-004 --json",
        "certificate WS 1 --json",
        "verify-certificate WS/certificates/000001.json --public-key WS/public.key --json",
        "report WS --out OUT/report.html --json",
    ),
    _forgotten(
        "forget-source",
        "source WS ann --owner Ann --terms consent --rate 0.25 --json",
        "source WS bob --rate 0.01 --json",
        "plan WS --source ann --json",
        "forget WS --source ann --yes --json",
        "source WS bob --clear --json",
    ),
    _forgotten("forget-subject", "plan WS --subject p2 --json", "forget WS --subject p2 --subject p5 --yes --json"),
    _forgotten("forget-label", "plan WS --label bee --json", "forget WS --label bee --yes --json"),
    _forgotten("forget-shard", "plan WS --shard c1-f0 --json", "forget WS --shard c1-f0 --yes --json"),
    _forgotten(
        "forget-shard-of-source",
        "plan WS --shard bob --json",
        "forget WS --shard bob --yes --json",
        options="--topology by-source --safe web",
    ),
    _forgotten(
        "forget-class-empty",
        "plan WS --label elk --json",
        "forget WS --label elk --yes --json",
        "add WS DATA/more.npz --json",
        data="rare.npz",
    ),
    _forgotten("forget-held-out", "plan WS --sample s-005 --json", "forget WS --sample s-005 --sample s-015 -y --json"),
    _forgotten(
        "forget-instant",
        "forget WS --sample s-003 --instant --yes --json",
        "status WS --json",
        "predict WS DATA/new.npz --json",
        "forget WS --source web --instant --yes --json",
        "verify WS --full --json",
        "repair WS --json",
        "repair WS --json",
    ),
    _forgotten(
        "forget-instant-across",
        "forget WS --subject p1 --instant --yes --json",
        "repair WS --json",
        options="--topology bilevel-across --coarse 2 --fine 1",
    ),
    _forgotten(
        "forget-everything",
        "forget WS --source ann --source bob --source web --yes --json",
        "status WS --json",
        "add WS DATA/more.npz --json",
    ),
    _forgotten(
        "forget-balanced",
        "forget WS --source ann --yes --json",
        "add WS DATA/more.npz --json",
        "forget WS --label cat --yes --json",
        options="--coarse 2 --fine 2 --assignment balanced",
    ),
    _forgotten(
        "return",
        "forget WS --sample s-001 --yes --json",
        "add WS DATA/return.npz --json",
        "add WS DATA/return.npz --allow-return --json",
        "forget WS --sample s-001 --yes --json",
    ),
    _forgotten(
        "grow",
        "add WS DATA/base.npz --json",
        "add WS DATA/overlap.npz --only-new --json",
        "add WS DATA/more.npz --only-new --json",
        "forget WS --sample s-060 --yes --json",
        "train WS --json",
    ),
    _forgotten(
        "wait",
        "add WS DATA/more.npz --wait --json",
        "status WS --json",
        "plan WS --sample s-061 --json",
        "forget WS --sample s-061 --yes --json",
        "train WS --json",
    ),
    _forgotten("rebuild", "forget WS --sample s-002 --yes --json", "train WS --rebuild --json"),
    _forgotten("train-otherwise", "train WS --coarse 3 --json", "train WS --coarse 2 --fine 2 --epochs 1 --json"),
    _forgotten(
        "twins",
        "twins WS --json",
        "twins WS --sample s-002 --threshold 0.9 --json",
        "plan WS --sample s-001 --json",
        "plan WS --sample s-001 --no-twins --json",
        "forget WS --sample s-001 --with-twins --yes --json",
        data="twins.npz",
    ),
    _forgotten(
        "refused",
        "train WS --epochs 1 --json",
        "add WS DATA/nothing.npz --json",
        "forget WS --sample nobody --yes --json",
        "plan WS --source nobody --json",
        "certificate WS --json",
        "grant WS acme --source nobody --json",
        "evaluate WS --as acme --json",
    ),
    _forgotten(
        "tokens",
        "token WS ops --role operator --json",
        "token WS ann --role owner --source ann --json",
        "token WS --json",
        "token WS ops --revoke --json",
    ),
    Scenario(
        "untrained",
        (
            *FIRST,
            "status WS --json",
            "plan WS --sample s-001 --json",
            "forget WS --sample s-001 --yes --json",
            "add WS DATA/more.npz --json",
            "forget WS --subject p15 --yes --json",
            "verify WS --full --json",
            "train WS --device cpu --coarse 2 --fine 2 --epochs 1 --json",
            *LOOK,
        ),
    ),
    # rights
    _forgotten(
        "rights",
        "plan WS --grant acme --source ann --json",
        "grant WS acme --source ann --source bob --json",
        "grant WS solo --source web --json",
        "rights WS --json",
        "predict WS DATA/new.npz --as acme --json",
        "provision WS acme --json",
        "provision WS solo --json",
        "evaluate WS --as acme --json",
        "predict WS DATA/new.npz --as acme --json",
        "add WS DATA/more.npz --json",
        "forget WS --sample s-001 --yes --json",
        "certificate WS --json",
        "forget WS --sample s-004 --instant --yes --json",
        "verify WS --full --json",
        "repair WS --json",
        "revoke WS acme --source bob --json",
        "provision WS acme --json",
        "evaluate WS --as acme --json",
        "revoke WS solo --json",
        "rights WS --json",
        options="--topology bilevel-across --coarse 2 --fine 1",
    ),
    _forgotten(
        "rights-by-shard",
        "grant WS acme --shard c0-f0 --source ann --json",
        "provision WS acme --json",
        "forget WS --source ann --yes --json",
        "train WS --rebuild --json",
        "rights WS --json",
        "revoke WS acme --shard c0-f0 --json",
    ),
    # private edges
    Scenario(
        "private",
        (
            *FIRST,
            f"train WS --device cpu {_SAFE} {_NOISE} --private-edges --json",
            "plan WS --sample s-001 --no-twins --json",
            "forget WS --sample s-001 --yes --json",
            "certificate WS --json",
            "train WS --alpha-budget 40 --beta-budget 0.5 --json",
            "forget WS --sample s-002 --instant --yes --json",
            "repair WS --json",
            *LOOK,
        ),
        private=True,
    ),
    Scenario(
        "private-weighted",
        (
            *FIRST,
            f"train WS --device cpu --topology DATA/weighted.json {_NOISE} --clip 0.5 --json",
            "forget WS --sample s-001 --yes --json",
            "forget WS --subject p3 --yes --json",
            *LOOK,
        ),
        private=True,
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def play(scenario: Scenario, data: Path, folder: Path) -> Record:
    """Run a scenario in a new folder; what each step left."""
    places = {"WS": folder / "ws", "DATA": data, "OUT": folder}
    steps: list[Record] = []
    before: dict[str, str] = {}
    known: set[str] = set()
    for words in scenario.steps:
        code, out = run(words, places)
        if words.startswith("init "):
            fix_keys(places["WS"])
        after = promised_files(places["WS"])
        changed = {name: after.get(name) for name in sorted(after | before) if after.get(name) != before.get(name)}
        step: Record = {"command": words, "code": code}
        if out is not None:
            out = as_before(words.partition(" ")[0], out)
            step |= {"keys": key_paths(out), "values": digest(_lasting(out))}
        if changed:
            step["files"] = changed
        if written := {path.name: path for path in sorted((places["WS"] / "certificates").glob("*.json"))
                       if path.name not in known}:  # fmt: skip
            step["certificates"] = {name: _certificate(path, scenario.private) for name, path in written.items()}
        steps.append(step)
        before, known = after, known | written.keys()
    return {"steps": steps}


def run(words: str, places: dict[str, Path]) -> tuple[int, Any]:
    """Run `shardgraph WORDS` in this process; the exit code, and the JSON value that --json printed.

    Predictions are made by one thread: sums over several can differ in the last bit.
    """
    given = [_placed(word, places) for word in shlex.split(words)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result = CliRunner().invoke(app, given)
    finally:
        torch.set_num_threads(threads)
    if "--json" not in given:
        return result.exit_code, None
    assert result.stdout.count("\n") == 1, f"{words}: one JSON value on one line, got {result.output!r}"
    return result.exit_code, json.loads(result.stdout)


def fix_keys(workspace: Path) -> None:
    """Give a new workspace keys that are the same in every run, so that keyed hashes are, too."""
    public = Ed25519PrivateKey.from_private_bytes(SIGNING).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    (workspace / "secret.key").write_bytes(SECRET)
    (workspace / "signing.key").write_bytes(SIGNING)
    (workspace / "public.key").write_text(public.hex() + "\n")


def promised_files(workspace: Path) -> dict[str, str]:
    """The hash of every file whose bytes are promised."""
    paths = [path for name in PROMISED for path in (workspace / name, *(workspace / name).rglob("*")) if path.is_file()]
    return {str(path.relative_to(workspace)): _hashed(path.read_bytes()) for path in paths}


def key_paths(value: Any, path: str = "") -> list[str]:
    """The paths of all keys of a JSON value, sorted; `*` stands for names that are data, `[]` for a list's elements."""
    found: set[str] = set()
    if isinstance(value, dict):
        by_data = path.rpartition(".")[2] in NAMED_BY_DATA
        for key, inner in value.items():
            here = f"{path}.*" if by_data else f"{path}.{key}".lstrip(".")
            found |= {here, *key_paths(inner, here)}
    elif isinstance(value, list):
        found = {each for inner in value for each in key_paths(inner, f"{path}[]")}
    return sorted(found)


def digest(value: Any) -> str:
    """The hash of a JSON value in its canonical form."""
    return _hashed(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def _hashed(raw: bytes) -> str:
    """The first half of the SHA-256, in hex: enough to tell bytes apart, and the table stays small."""
    return hashlib.sha256(raw).hexdigest()[:32]


def _placed(word: str, places: dict[str, Path]) -> str:
    head, slash, rest = word.partition("/")
    return f"{places[head]}{slash}{rest}" if head in places else word


def _lasting(value: Any) -> Any:
    """A JSON output without what differs from run to run."""
    if isinstance(value, dict):
        return {key: _lasting(inner) for key, inner in value.items() if key not in VOLATILE}
    return [_lasting(inner) for inner in value] if isinstance(value, list) else value


def _certificate(path: Path, private: bool) -> Record:
    """A certificate's keys, and the digest of what it states; with private edges, without what depends on the noise."""
    value = json.loads(path.read_bytes())
    left_out = UNSTATED | ({"model_digest", "before"} if private else set())
    return {"keys": key_paths(value), "statement": digest({k: v for k, v in value.items() if k not in left_out})}


def observe(scenario: Scenario, data: Path) -> Record:
    """The scenario's record for the table; with private edges, from two runs: what differs between them is random."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        first = play(scenario, data, Path(folder, "first"))
        return _common(first, play(scenario, data, Path(folder, "second"))) if scenario.private else first


def _common(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {key: _common(first[key], second[key]) for key in first}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [_common(a, b) for a, b in zip(first, second, strict=True)]
    return first if first == second else RANDOM


def plain_part(record: Record) -> dict[str, Any]:
    """What no machine's numerics change, as flat names and values: exit codes, keys, files of samples, config.json."""
    return {name: value for name, value in _flat(record).items() if _is_plain(name)}


def numeric_part(record: Record) -> dict[str, Any]:
    """What is promised under equal numerics alone: models, prototypes, manifests, statements, values."""
    return {name: value for name, value in _flat(record).items() if not _is_plain(name)}


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """One line for each thing that differs."""
    lines = []
    for name in sorted(expected.keys() | found.keys()):
        ours, theirs = found.get(name, "nothing"), expected.get(name, "nothing")
        if ours != theirs and not (theirs == RANDOM and name in found):
            lines.append(f"{name}: {_told(theirs, ours)}")
    return lines


def _flat(record: Record) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for number, step in enumerate(record["steps"], start=1):
        name = f"{number:02d} {step['command']}"
        flat |= {f"{name} | {part}": step[part] for part in ("code", "keys", "values") if part in step}
        flat |= {f"{name} | file {path}": value for path, value in step.get("files", {}).items()}
        for file, certificate in step.get("certificates", {}).items():
            flat |= {f"{name} | certificate {file} {part}": value for part, value in certificate.items()}
    return flat


def _is_plain(name: str) -> bool:
    what = name.rpartition(" | ")[2]
    if what.startswith("file "):
        return what.removeprefix("file ").partition("/")[0] in PLAIN
    return what in ("code", "keys") or what.endswith(" keys")


def _told(expected: Any, found: Any) -> str:
    if isinstance(expected, list) and isinstance(found, list):
        return f"gone {sorted(set(expected) - set(found))}, new {sorted(set(found) - set(expected))}"
    return f"was {expected}, is {found}"


def load_table() -> Record:
    """The committed table: the machine that it was made on, and a record a scenario."""
    table = json.loads(DIGESTS.read_text())
    for record in table["scenarios"].values():
        for step in record["steps"]:
            for holder in (step, *step.get("certificates", {}).values()):
                if "keys" in holder:
                    holder["keys"] = table["shapes"][holder["keys"]]
    return table


def write_table(records: dict[str, Record]) -> None:
    """Write the table; equal lists of keys stand in it once, under a name."""
    shapes: dict[str, list[str]] = {}

    def named(keys: list[str], what: str) -> str:
        name = f"{what}-{digest(keys)[:8]}"
        shapes[name] = keys
        return name

    scenarios = {}
    for scenario, record in records.items():
        steps = []
        for step in record["steps"]:
            step = dict(step)
            if "keys" in step:
                step["keys"] = named(step["keys"], step["command"].partition(" ")[0])
            if "certificates" in step:
                step["certificates"] = {
                    name: value | {"keys": named(value["keys"], "statement")}
                    for name, value in step["certificates"].items()
                }
            steps.append(step)
        scenarios[scenario] = {"steps": steps}
    table = {"machine": machine(), "scenarios": scenarios, "shapes": shapes}
    DIGESTS.write_text(json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def main() -> int:
    """Write the tables, or compare with them; the exit code."""
    from tests.compatibility import surface

    parser = argparse.ArgumentParser(description="Digests of what the command line leaves, compared or written.")
    parser.add_argument("--write", action="store_true", help="write digests.json and surface.json anew")
    parser.add_argument("names", nargs="*", help="compare only these scenarios")
    options = parser.parse_args()
    if options.write and options.names:
        parser.error("--write writes all scenarios")
    chosen = [BY_NAME[name] for name in options.names] or SCENARIOS
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        data = write_samples(Path(folder, "data"))
        if options.write:
            write_table({scenario.name: observe(scenario, data) for scenario in chosen})
            surface.write()
            return 0
        return _compare(chosen, data) | (0 if options.names else surface.compare())


def _compare(chosen: tuple[Scenario, ...] | list[Scenario], data: Path) -> int:
    table, wrong = load_table(), 0
    for scenario in chosen:
        start = time.monotonic()
        expected = table["scenarios"].get(scenario.name, {"steps": []})
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            found = play(scenario, data, Path(folder))
        lines = differences(plain_part(expected), plain_part(found))
        same = machine() == table["machine"]
        if same:
            lines += differences(numeric_part(expected), numeric_part(found))
        verdict = "differs" if lines else "equal" if same else "equal but for numerics, which are others here"
        print(f"{scenario.name:28s} {verdict}  ({time.monotonic() - start:.1f} s)", *lines, sep="\n    ")
        wrong += bool(lines)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
