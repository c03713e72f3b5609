"""Verification finds what somebody changed, and says where."""

import json
import shutil
from dataclasses import replace

import pytest

from shardgraph.digest import canonical_json, digest
from shardgraph.errors import DamagedFile
from shardgraph.forget.build.wanted import Manifest, group_path
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.learn.inca import Adapters, model_digest
from shardgraph.learn.prototypes import total
from shardgraph.storage.samples import concatenate, pack_samples
from shardgraph.storage.tables import inventory
from tests.strategies import FEW_ROWS as ROWS
from tests.strategies import embed, promised_files


@pytest.fixture
def workspace(workspace):
    """Trained, with two certificates."""
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    workspace.forget(ForgetRequest(samples=(ROWS[2].id,)))
    return workspace


def failed(workspace, full=False):
    return [check.name for check in workspace.verify(full=full).checks if not check.ok]


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("full", [False, True])
def test_an_untouched_workspace_is_as_it_should_be(workspace, full):
    before = promised_files(workspace.root)
    verification = workspace.verify(full=full)
    assert verification.ok and verification.full == full
    assert len(verification.checks) == (10 if full else 7)
    assert promised_files(workspace.root) == before
    assert not list((workspace.root / "scratch").iterdir())
    assert verification.to_json()["ok"] is True


def test_a_flipped_bit_in_a_shard_is_found(workspace):
    flip(workspace.context.store.path("shard:bob"))
    assert failed(workspace) == ["samples"]
    assert "shard:bob" in next(c.detail for c in workspace.verify().checks if not c.ok)


def test_a_flipped_bit_in_a_held_out_file_is_found(workspace):
    flip(next((workspace.root / "heldout").rglob("*.safetensors")))
    assert failed(workspace) == ["samples"]


def test_a_flipped_bit_in_a_model_is_found(workspace):
    flip(group_path(workspace.root, "bob"))
    assert failed(workspace) == ["model"]


def test_a_flipped_bit_in_the_prototypes_is_found(workspace):
    flip(workspace.root / "prototypes.safetensors")
    assert failed(workspace) == ["model"]


def test_a_changed_manifest_is_found(workspace):
    path = workspace.root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"weight":0.', b'"weight":0.1'))
    assert failed(workspace) == ["model"]


def test_a_changed_certificate_is_found(workspace):
    path = workspace.certificates.path(1)
    path.write_text(path.read_text().replace('"forget"', '"repair"'))
    assert failed(workspace) == ["certificates"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_certificate_is_found(workspace, number):
    workspace.certificates.path(number).unlink()
    assert failed(workspace) == ["certificates"]


def test_a_certificate_in_anothers_place_is_found(workspace):
    shutil.copyfile(workspace.certificates.path(1), workspace.certificates.path(2))
    assert failed(workspace) == ["certificates"]
    assert "chain" in workspace.verify().checks[0].detail


def test_a_link_that_was_cut_out_and_signed_anew_breaks_the_chain(workspace):
    """Whoever holds the key can sign, but not change the past that the next certificate points to."""
    changed = replace(workspace.certificates.load(1), asked=()).signed(workspace.context.keys)
    workspace.certificates.path(1).write_text(json.dumps(changed.to_json()))
    assert failed(workspace) == ["certificates"]
    assert "broken at number 2" in workspace.verify().checks[0].detail


def serve_instead(workspace, name, raw):
    """Swap a file of the model and make everything that carries no secret agree."""
    path = workspace.root / "prototypes.safetensors" if name == "prototypes" else group_path(workspace.root, name)
    path.write_bytes(raw)
    manifest = Manifest.load(workspace.root)
    groups = manifest.groups if name == "prototypes" else {**manifest.groups, name: digest(raw)}
    sums = digest(raw) if name == "prototypes" else manifest.prototypes
    found = model_digest(groups, sums, manifest.classes, manifest.weight)
    replace(manifest, groups=groups, prototypes=sums, model_digest=found).save(workspace.root)
    with workspace.context.catalogue.transaction() as db:
        row = "prototypes" if name == "prototypes" else f"group:{name}"
        db.execute("UPDATE built SET digest = ? WHERE name = ?", (digest(raw), row))
    return found


def tell_the_ledger(workspace, found):
    """What only the holder of the workspace's secret can do."""
    workspace.context.record_event("trained", {"model": workspace.context.keys.mark(found)})


def test_a_swapped_group_is_found_by_the_ledger_and_by_rebuilding(workspace):
    stale = Adapters.from_bytes(group_path(workspace.root, "bob").read_bytes())
    swapped = Adapters(stale.kind, stale.classes, -stale.first, stale.second, stale.samples).to_bytes()
    found = serve_instead(workspace, "bob", swapped)
    assert failed(workspace) == ["model"]
    assert failed(workspace, full=True) == ["model", "groups rebuilt"]
    tell_the_ledger(workspace, found)
    assert failed(workspace) == []
    assert failed(workspace, full=True) == ["groups rebuilt"]
    assert "bob" in workspace.verify(full=True).checks[-1].detail


def test_prototypes_that_kept_a_forgotten_sample_are_found_by_summing_anew(workspace):
    kept = total([embed([row for row in ROWS if row.split == "train" and row is not ROWS[2]])])
    found = serve_instead(workspace, "prototypes", kept.to_bytes())
    tell_the_ledger(workspace, found)
    assert failed(workspace) == []
    assert failed(workspace, full=True) == ["prototypes rebuilt"]


def test_a_sample_in_the_wrong_shard_is_found(workspace):
    moved = workspace.context.store.read("shard:bob").ids[0]
    parts = {unit: workspace.context.store.read(unit) for unit in ("shard:ann", "shard:bob")}
    keep = {unit: [i for i, name in enumerate(part.ids) if name != moved] for unit, part in parts.items()}
    files = {
        "shard:bob": parts["shard:bob"].take(keep["shard:bob"]),
        "shard:ann": concatenate([parts["shard:ann"], parts["shard:bob"].take([0])]),
    }
    with workspace.context.catalogue.transaction() as db:
        db.execute("UPDATE samples SET unit = 'shard:ann' WHERE id = ?", (moved,))
        for unit, samples in files.items():
            raw = pack_samples(samples)
            workspace.context.store.path(unit).write_bytes(raw)
            inventory.record_units(db, {unit: digest(raw)})
    assert "placement" in failed(workspace, full=True)


def test_a_sample_that_the_catalogue_does_not_list_is_found(workspace):
    raw = pack_samples(embed([row for row in ROWS[:16] if row.source == "bob"] + [ROWS[0]]))
    workspace.context.store.path("shard:bob").write_bytes(raw)
    with workspace.context.catalogue.transaction() as db:
        inventory.record_units(db, {"shard:bob": digest(raw)})
    assert failed(workspace) == ["samples"]


def test_an_instant_forget_verifies_before_and_after_its_repair(workspace):
    workspace.forget(ForgetRequest(samples=(ROWS[4].id,)), instant=True)
    assert "1 withdrawn" in workspace.verify(full=True).checks[-1].detail
    assert failed(workspace, full=True) == []
    workspace.repair()
    assert failed(workspace, full=True) == []


def test_a_new_workspace_has_nothing_to_fail(create):
    workspace = create("new")
    assert failed(workspace, full=True) == []
    workspace.add(embed(ROWS))
    assert failed(workspace, full=True) == []


def change_manifest(workspace, **changes):
    path = workspace.root / "manifest.json"
    path.write_bytes(canonical_json(json.loads(path.read_bytes()) | changes))


def change_config(workspace, **changes):
    path = workspace.root / "config.json"
    value = json.loads(path.read_bytes())
    value["recipe"] |= changes
    path.write_bytes(canonical_json(value))


def execute_sql(workspace, *statements):
    with workspace.context.catalogue.transaction() as db:
        for sql in statements:
            db.execute(sql)


TAMPERED = {
    "no manifest": ("model", lambda w: (w.root / "manifest.json").unlink()),
    "classes of the manifest": ("model", lambda w: change_manifest(w, classes=["zz"])),
    "missing groups of the manifest": ("model", lambda w: change_manifest(w, missing=["nobody"])),
    "the public key": ("keys", lambda w: (w.root / "public.key").write_text("00" * 32)),
    "no public key": ("keys", lambda w: (w.root / "public.key").unlink()),
    "a label": ("samples", lambda w: execute_sql(w, "UPDATE samples SET label = 'dog' WHERE label = 'ant'")),
    "the ledger's end": (
        "certificates",
        lambda w: (w.certificates.path(2).unlink(), execute_sql(w, "DELETE FROM ledger WHERE detail LIKE '%te\": 2%'")),
    ),
    "the ledger's lines of certificates": (
        "certificates",
        lambda w: execute_sql(w, "DELETE FROM ledger WHERE detail LIKE '%certificate%'"),
    ),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_what_else_somebody_changed_is_found(workspace, case):
    name, tamper = TAMPERED[case]
    tamper(workspace)
    with Workspace(workspace.root, workers=1) as again:
        assert name in failed(again)


@pytest.mark.parametrize("change", [{"shrinkage": 0.5}, {"mixing": 0.1}])
def test_a_changed_configuration_is_not_opened(workspace, change):
    change_config(workspace, **change)
    with pytest.raises(DamagedFile, match=r"config\.json was changed"):
        Workspace(workspace.root)


@pytest.mark.parametrize("folder", ["shards", "models", "heldout"])
def test_a_file_that_nobody_knows_of_is_found(workspace, folder):
    known = next((workspace.root / folder).rglob("*.safetensors"))
    stray = workspace.root / folder / "zz" / known.name
    stray.parent.mkdir()
    shutil.copyfile(known, stray)
    assert failed(workspace) == ["files"]


def test_a_workspace_without_its_catalogue_is_not_opened(workspace):
    workspace.close()
    for path in workspace.root.glob("catalog.sqlite*"):
        path.unlink()
    with pytest.raises(DamagedFile, match="missing"):
        Workspace(workspace.root)
    assert not list(workspace.root.glob("catalog.sqlite*")), "nor is an empty one made"
