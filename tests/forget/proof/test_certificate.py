"""Certificates: signed, chained, and silent about what is gone."""

import json
from dataclasses import asdict, fields, replace

import pytest

from shardgraph.digest import digest
from shardgraph.errors import DamagedFile, VerificationError
from shardgraph.forget.build.wanted import Manifest
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.proof.certificate import Certificate, check_certificate, opens
from shardgraph.forget.proof.keys import Keys, certificate_leaf, check_signature
from shardgraph.graph import BySource
from shardgraph.storage.tables import inventory
from tests.strategies import FEW_ROWS as ROWS
from tests.strategies import embed, promised_files

ASKED = ForgetRequest(samples=(ROWS[0].id, ROWS[1].id), subjects=("p2",), reason="she asked")


def test_a_certificate_says_what_was_done_and_what_is_there_now(workspace):
    leaving = {row.id for row in ROWS if row in ROWS[:2] or row.subject == "p2"}
    certificate = workspace.forget(ASKED)
    manifest = Manifest.load(workspace.root)
    assert (certificate.number, certificate.previous, certificate.event) == (1, "", "forget")
    assert certificate.guarantee.startswith("exact")
    assert len(certificate.entries) == len(leaving) == 8
    assert len(certificate.asked) == 3
    assert certificate.model_digest == manifest.model_digest == workspace.status()["model_digest"]
    assert certificate.config == workspace.config.digest
    assert certificate.graph == BySource().graph(["ann", "bob", "web"]).digest
    assert certificate.fingerprint == manifest.fingerprint
    assert workspace.certificates.load(1) == certificate


def test_certificates_are_chained_and_signed(workspace):
    certificates = [
        workspace.forget(ForgetRequest(samples=(ROWS[0].id,))),
        workspace.forget(ForgetRequest(samples=(ROWS[1].id,)), instant=True),
        workspace.repair(),
        workspace.forget(ForgetRequest(labels=("bee",))),
    ]
    assert [c.event for c in certificates] == ["forget", "instant", "repair", "forget"]
    assert [c.number for c in certificates] == [1, 2, 3, 4]
    assert [c.previous for c in certificates] == ["", *(c.digest for c in certificates[:-1])]
    public = (workspace.root / "public.key").read_text().strip()
    for certificate in certificates:
        check_certificate(certificate, public)
    assert workspace.verify().ok


CHANGES = {
    "number": 7,
    "missing": 3,
    "entries": ("0" * 64,),
    "asked": (),
    "fingerprint": {"torch": "1.0"},
}


@pytest.mark.parametrize("name", [field.name for field in fields(Certificate)])
def test_a_change_of_any_field_is_detected(workspace, name):
    certificate = workspace.forget(ASKED)
    changed = replace(certificate, **{name: CHANGES.get(name, "0" * 64)})
    assert changed != certificate
    with pytest.raises(VerificationError):
        check_certificate(changed, workspace.context.keys.public)
    path = workspace.certificates.path(1)
    path.write_text(json.dumps(changed.to_json()))
    verification = workspace.verify()
    assert [check.name for check in verification.checks if not check.ok] == ["certificates"]


def test_a_certificate_signed_by_somebody_else_is_not_ours(workspace, root):
    certificate = workspace.forget(ASKED)
    stranger = Keys.create(root)
    forged = replace(certificate, model_digest="0" * 64, public_key=stranger.public).signed(stranger)
    check_signature(stranger.public, forged.message(), forged.signature)
    with pytest.raises(VerificationError, match="another key"):
        check_certificate(forged, workspace.context.keys.public)


def test_a_nonce_opens_its_own_entry_and_no_other(workspace):
    leaving = [row.id for row in ROWS if row in ROWS[:2] or row.subject == "p2"]
    certificate = workspace.forget(ASKED)
    nonces = workspace.certificates.nonces(certificate.number, leaving)
    for sample, nonce in nonces.items():
        assert opens(certificate, sample, nonce)
        assert [other for other in leaving if opens(certificate, other, nonce)] == [sample]
    kept = next(row.id for row in ROWS if row.id not in leaving)
    assert not opens(certificate, kept, workspace.certificates.nonces(1, [kept])[kept]), "who stayed has no entry"
    assert not opens(certificate, leaving[0], workspace.certificates.nonces(2, leaving[:1])[leaving[0]]), (
        "one certificate, one nonce"
    )


def test_without_the_nonce_an_id_cannot_be_found_by_trying(workspace):
    certificate = workspace.forget(ASKED)
    public = {certificate.public_key, certificate.digest, certificate.model_digest, str(certificate.number), ""}
    guesses = {certificate_leaf(nonce, row.id) for nonce in public for row in ROWS} | {digest(row.id) for row in ROWS}
    assert not guesses & {*certificate.entries, *certificate.asked}


def test_nothing_of_what_left_and_no_plain_digest_of_the_state_before_is_in_the_text(workspace):
    """Training is deterministic: whoever has a candidate could rebuild the old state and compare digests."""
    before = promised_files(workspace.root)
    manifest = Manifest.load(workspace.root)
    secrets = {manifest.model_digest, manifest.prototypes, *manifest.groups.values()}
    secrets |= set(inventory.unit_digests(workspace.context.catalogue).values()) | {
        digest(raw) for raw in before.values()
    }
    secrets |= {built.key for built in inventory.built_groups(workspace.context.catalogue).values()}
    secrets |= {inventory.built_prototypes(workspace.context.catalogue).key}
    leaving = [row.id for row in ROWS if row in ROWS[:2] or row.subject == "p2"]
    secrets |= {*leaving, "p2", "she asked"}
    certificate = workspace.forget(ASKED)
    text = workspace.certificates.path(certificate.number).read_text()
    still_true = set(Manifest.load(workspace.root).groups.values()) | set(
        inventory.unit_digests(workspace.context.catalogue).values()
    )
    assert [word for word in secrets - still_true if word and word in text] == []
    assert [word for word in still_true if word in text] == [], "not those of now either, beyond the model's"


def test_equal_requests_in_two_workspaces_give_entries_that_do_not_match(workspace, trained):
    other = trained(BySource(), ROWS, "other")
    mine, theirs = workspace.forget(ASKED), other.forget(ASKED)
    assert mine.model_digest == theirs.model_digest, "nothing provisioned: equal data, equal digest"
    for name in ("entries", "asked", "inputs", "before", "public_key", "signature"):
        assert not set(asdict(mine)[name]) & set(asdict(theirs)[name]) or asdict(mine)[name] != asdict(theirs)[name]
    assert not set(mine.entries) & set(theirs.entries) and not set(mine.asked) & set(theirs.asked)
    assert mine.inputs != theirs.inputs and mine.before != theirs.before


def test_a_torn_certificate_is_told_from_a_missing_one(workspace):
    workspace.forget(ASKED)
    path = workspace.certificates.path(1)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DamagedFile):
        workspace.certificates.load(1)
    path.unlink()
    with pytest.raises(VerificationError, match="missing"):
        workspace.certificates.load(1)


def test_the_keys_are_private(workspace):
    for name in ("secret.key", "signing.key"):
        assert (workspace.root / name).stat().st_mode & 0o777 == 0o600
        assert len((workspace.root / name).read_bytes()) == 32
    assert (workspace.root / "public.key").read_text().strip() == workspace.context.keys.public
    (workspace.root / "secret.key").write_bytes(b"short")
    with pytest.raises(DamagedFile, match="32 bytes"):
        Keys.load(workspace.root)


def test_forgotten_again_after_a_return_gives_the_newer_certificate(workspace):
    one = ForgetRequest(samples=(ROWS[0].id,))
    first = workspace.forget(one)
    workspace.add(embed(ROWS[:1]), allow_return=True)
    workspace.train()
    second = workspace.forget(one)
    assert (first.number, second.number) == (1, 2)
    assert first.model_digest == second.model_digest
    assert first.entries != second.entries
    assert workspace.forget(one) == second


@pytest.mark.parametrize(
    ("forged", "error"),
    [
        ({"missing": float("nan")}, DamagedFile),
        ({"privacy": {"alpha": float("inf")}}, DamagedFile),
        ({"number": "\ud800"}, DamagedFile),
        ({"signature": "\ud800"}, VerificationError),
        ({"signature": 7}, VerificationError),
    ],
    ids=["NaN", "infinity", "half a character", "half a character as signature", "a number as signature"],
)
def test_a_forged_file_that_no_certificate_can_be_is_refused(workspace, tmp_path, forged, error):
    file = tmp_path / "forged.json"
    file.write_text(json.dumps(workspace.forget(ASKED).to_json() | forged))
    with pytest.raises(error):
        check_certificate(Certificate.load(file), workspace.context.keys.public)


def test_nothing_is_chained_onto_a_certificate_that_was_changed(workspace):
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    path = workspace.certificates.path(1)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"missing": 0', b'"missing": 1'))
    with pytest.raises(DamagedFile, match="was changed since it was signed"):
        workspace.forget(ForgetRequest(samples=(ROWS[1].id,)))
    assert workspace.plan(ForgetRequest(samples=(ROWS[1].id,))).rows, "nothing was accepted"
    path.write_bytes(raw)
    assert workspace.forget(ForgetRequest(samples=(ROWS[1].id,))).number == 2
