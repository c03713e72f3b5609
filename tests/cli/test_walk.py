"""A walk through the commands as a script takes it: JSON, exit codes, tables."""

from pathlib import Path

from tests.cli.conftest import COUNT, TRAIN, run


def test_a_walk_from_init_to_verify(tmp_path: Path, data: Path):
    ws = tmp_path / "ws"
    made = run("init", ws, "--backbone", "precomputed", "--seed", 1, "--json").json
    assert made["seed"] == 1 and made["public_key"] == (ws / "public.key").read_text().strip()
    added = run("add", ws, data / "data.npz", "--json").json
    assert (added["added"], added["waiting"], added["model_digest"]) == (COUNT, COUNT, None)
    trained = run("train", ws, *TRAIN, "--json").json
    assert trained["groups"] == 2 and trained["classes"] == 4
    evaluated = run("evaluate", ws, "--json").json
    assert 0 <= evaluated["accuracy"] <= 1 and evaluated["samples"] == COUNT // 5
    status = run("status", ws, "--json").json
    assert status["model_digest"] == trained["model_digest"] and status["disk_bytes"] > 0
    plan = run("plan", ws, "--sample", "s-001", "--json").json
    assert (plan["samples"], plan["groups_to_rebuild"]) == (1, 1)
    forgot = run("forget", ws, "--yes", "--sample", "s-001", "--json").json
    assert forgot["certificate"] == 1 and not forgot["already_forgotten"] and forgot["plan"].items() <= plan.items()
    assert forgot["model_digest"] != trained["model_digest"] and set(forgot["nonces"]) == {"s-001"}
    assert Path(forgot["certificate_file"]).exists()
    verified = run("verify", ws, "--full", "--json").json
    assert verified["ok"] and len(verified["checks"]) == 10
    assert run("repair", ws, "--json").json["repaired"] is False


def test_people_get_tables(ws: Path, data: Path):
    for words in (("status", ws), ("evaluate", ws), ("plan", ws, "--label", "cat"), ("verify", ws), ("train", ws)):
        shown = run(*words)
        assert shown.code == 0 and not shown.err and len(shown.out.splitlines()) > 2
    assert "nonce" in run("forget", ws, "--yes", "--sample", "s-001", "--reason", "asked").out
    assert "certificate 1" in run("certificate", ws, "1").out
