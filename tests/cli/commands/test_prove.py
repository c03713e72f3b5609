"""`verify`, `status`, `certificate` and `verify-certificate`."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import refused, run


def test_verify_says_whose_numerics_these_are(ws: Path):
    assert "those that the model was built with" in run("verify", ws).out


def test_verify_says_that_the_numerics_are_others(ws: Path, other_torch: None):
    plain = run("verify", ws, "--json")
    told = {check["name"]: check["detail"] for check in plain.json["checks"]}
    assert plain.code == 0 and "torch is '99.0' here" in told["numerics"]
    shown = run("verify", ws, "--full")
    assert shown.code == 1 and "not everything was compared" in shown.out and "WRONG" not in shown.out
    assert "not compared" in shown.out and "failed" not in shown.out
    full = run("verify", ws, "--full", "--json")
    assert (full.code, full.json["ok"], full.json["kind"]) == (1, False, "FingerprintError")
    assert "not compared: built with other numerics: torch is '99.0' here" in full.json["error"]


def test_what_is_wrong_is_called_wrong_under_other_numerics(ws: Path, other_torch: None):
    (ws / "public.key").write_text("00" * 32)
    shown = run("verify", ws, "--full")
    assert shown.code == 1 and "verification failed" in shown.out and "WRONG" in shown.out
    assert run("verify", ws, "--full", "--json").json["kind"] == "VerificationError"


@pytest.mark.parametrize("given", ["typo/public.key", "12ab", "g" * 64, ""])
def test_a_public_key_that_is_neither_hex_nor_a_file_is_named(ws: Path, given: str):
    run("forget", ws, "--yes", "--sample", "s-001")
    certificate = ws / "certificates" / "000001.json"
    failed = run("verify-certificate", certificate, "--public-key", given)
    assert failed.code == 1
    assert f"a public key must be 64 hex digits or a file that holds them, got '{given}'" in failed.err
    assert "there is no such file" in failed.err and "another key" not in failed.err


@pytest.mark.parametrize("held", [b"", b"no key", b"\xff\x00"])
def test_a_file_that_holds_no_public_key_is_named(ws: Path, tmp_path: Path, held: bytes):
    run("forget", ws, "--yes", "--sample", "s-001")
    (tmp_path / "other.key").write_bytes(held)
    failed = run("verify-certificate", ws / "certificates" / "000001.json", "--public-key", tmp_path / "other.key")
    assert failed.code == 1 and "the file does not hold a public key" in failed.err


def test_a_public_key_may_be_hex_or_a_file(ws: Path):
    run("forget", ws, "--yes", "--sample", "s-001")
    certificate = ws / "certificates" / "000001.json"
    for key in (ws / "public.key", (ws / "public.key").read_text().strip()):
        assert run("verify-certificate", certificate, "--public-key", key).code == 0


def test_a_certificate_can_be_checked_with_the_public_key_alone(ws: Path, tmp_path: Path):
    forgot = run("forget", ws, "--yes", "--sample", "s-001", "--json").json
    nonce, key = forgot["nonces"]["s-001"], (ws / "public.key").read_text().strip()
    assert run("certificate", ws, "--nonce-for", "s-001", "--json").json["nonces"] == {"s-001": nonce}
    alone = Path(shutil.copy(forgot["certificate_file"], tmp_path / "c.json"))
    shutil.rmtree(ws)
    check = ("verify-certificate", alone, "--public-key", key)
    assert run(*check, "--json").json["ok"]
    assert run(*check, "--open", "s-001", "--nonce", nonce, "--json").json["opened"]
    assert run(*check, "--open", "s-002", "--nonce", nonce).code == 1
    assert run(*check, "--open", "s-001").code == 2
    assert run("verify-certificate", alone, "--public-key", "00" * 32).code == 1
    alone.write_text(alone.read_text().replace('"missing": 0', '"missing": 1'))
    assert run(*check).code == 1
    for value in (float("nan"), "\ud800"):
        alone.write_text(json.dumps(json.loads(alone.read_text()) | {"number": value}))
        assert (failed := run(*check, "--json")).code == 1 and failed.json["kind"] == "DamagedFile"
    assert run("verify-certificate", alone, "--public-key", "00" * 32, "--json").json["kind"] == "VerificationError"


def test_a_tampered_certificate_manifest_and_key(ws: Path):
    run("forget", ws, "--yes", "--sample", "s-001")
    certificate = ws / "certificates" / "000001.json"
    whole = certificate.read_text()
    certificate.write_text(whole.replace('"missing": 0', '"missing": 1'))
    assert run("verify", ws).code == 1
    certificate.write_text(whole)
    assert run("verify", ws).code == 0
    (ws / "manifest.json").write_text("{")
    assert "manifest.json" in refused(ws, "evaluate", ws).err
    assert run("train", ws, "--rebuild").code == 0
    (ws / "signing.key").write_bytes(b"short")
    assert "signing.key" in refused(ws, "status", ws).err
