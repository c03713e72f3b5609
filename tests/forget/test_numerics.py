"""Under other numerics (a library was upgraded) the old model is never mixed with a new one."""

import json
from dataclasses import replace

import pytest
import torch

from shardgraph.errors import FingerprintError
from shardgraph.forget.build.wanted import wanted_groups
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.graph import BySource
from shardgraph.storage.tables import inventory
from tests.strategies import LABELS, QUICK, Row, embed, many, never_saw, promised_files

ROWS = many(18)


@pytest.fixture
def upgraded(workspace, other_torch):
    """A workspace that was trained before torch was upgraded."""
    return workspace


def test_training_is_refused_and_names_the_difference(upgraded):
    before = promised_files(upgraded.root)
    upgraded.add(embed([Row("late", "ant")]))
    for act in (upgraded.train, upgraded.repair):
        with pytest.raises(FingerprintError, match=r"torch is '99\.0' here, was '.*--rebuild"):
            act()
    assert promised_files(upgraded.root) == before
    assert "torch is '99.0' here" in upgraded.status()["numerics"]


def test_a_forget_erases_and_withdraws_and_does_not_mix(upgraded):
    before = promised_files(upgraded.root)
    certificate = upgraded.forget(ForgetRequest(samples=(ROWS[0].id,)))
    assert (certificate.event, certificate.missing) == ("instant", 1)
    assert certificate.guarantee.startswith("withdrawn")
    assert certificate.fingerprint["torch"] != "99.0"
    assert upgraded.status()["groups"] == {"serving": 2, "missing": 1}
    after = promised_files(upgraded.root)
    models = {name: raw for name, raw in after.items() if name.startswith("models")}
    assert len(models) == 2 and models.items() <= before.items(), "those that did not see it are as they were"
    assert not any(ROWS[0].id.encode() in raw for raw in after.values())
    assert len(upgraded.predict(embed(ROWS))) == 18


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_model_of_a_gpu_can_be_forgotten_from_where_there_is_none(trained, fast_path):
    workspace = trained(BySource(), ROWS)
    path, context = workspace.root / "manifest.json", workspace.context
    told = json.loads(path.read_text())
    elsewhere = told["fingerprint"] | {"kind": "cuda", "device": "a GPU"}
    path.write_text(json.dumps(told | {"fingerprint": elsewhere}))
    keys = {name: group.key for name, group in wanted_groups(context.store, context.config, elsewhere).items()}
    with context.catalogue.transaction() as transaction:
        for name, built in inventory.built_groups(context.catalogue).items():
            inventory.record_group(transaction, name, replace(built, key=keys[name]))
    assert "kind is 'cpu' here, was 'cuda'" in workspace.status()["numerics"]
    assert workspace.forget(ForgetRequest(samples=(ROWS[0].id,))).event == "instant"
    assert not any(ROWS[0].id.encode() in raw for raw in promised_files(workspace.root).values())
    with pytest.raises(FingerprintError, match="--rebuild"):
        workspace.repair()
    workspace.train(rebuild=True)
    assert promised_files(workspace.root) == never_saw(workspace, ROWS[1:], fast_path / "never")


def test_verifying_says_why_it_cannot_compare(upgraded):
    told = {check.name: check for check in upgraded.verify().checks}
    assert upgraded.verify().ok and "torch is '99.0' here" in told["numerics"].detail
    found = upgraded.verify(full=True)
    check = found.checks[-1]
    assert not check.ok and not check.compared and check.detail.startswith("not compared: built with other numerics")
    assert "torch is '99.0' here" in check.detail
    assert not found.ok and not found.wrong, "nothing is proven, and nothing found wrong"


def test_other_numerics_do_not_hide_what_is_wrong(upgraded):
    (upgraded.root / "public.key").write_text("00" * 32)
    assert upgraded.verify(full=True).wrong


def test_the_numerics_of_the_model_are_told(create):
    workspace = create("same", classes=LABELS)
    assert {check.name: check.detail for check in workspace.verify().checks}["numerics"] == "no model yet"
    workspace.add(embed(ROWS))
    workspace.train(BySource(), QUICK)
    told = {check.name: check.detail for check in workspace.verify().checks}
    assert told["numerics"] == "those that the model was built with"


def test_a_rebuild_mends_it(upgraded, fast_path):
    upgraded.forget(ForgetRequest(samples=(ROWS[0].id,)))
    upgraded.add(embed([Row("late", "ant")]))
    upgraded.train(rebuild=True)
    assert upgraded.status()["numerics"] == "same"
    kept = [*ROWS[1:], Row("late", "ant")]
    assert promised_files(upgraded.root) == never_saw(upgraded, kept, fast_path / "never")
    assert upgraded.verify(full=True).ok
    upgraded.train()
    assert upgraded.forget(ForgetRequest(samples=(ROWS[1].id,))).event == "forget"


def test_a_rebuild_that_was_interrupted_serves_no_mixture(upgraded, fast_path):
    """One group is new, two are old, when a forget has to publish a model."""
    steps = []

    def progress(what, done, of):
        steps.append(what)
        if (what, done) == ("training", 1):
            raise KeyboardInterrupt

    upgraded.context.progress = progress
    with pytest.raises(KeyboardInterrupt):
        upgraded.train(rebuild=True)
    upgraded.context.progress = lambda what, done, of: None
    upgraded.forget(ForgetRequest(samples=(ROWS[0].id,)))
    verification = upgraded.verify()
    assert verification.ok, verification
    assert upgraded.certificates.load(1).fingerprint["torch"] == "99.0", (
        "the old adapters left service when the rebuild began"
    )
    assert upgraded.status()["groups"]["missing"] == 0
    upgraded.train(rebuild=True)
    assert promised_files(upgraded.root) == never_saw(upgraded, ROWS[1:], fast_path / "never")
