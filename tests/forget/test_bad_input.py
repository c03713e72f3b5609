"""Bad input: a clear error that names the thing, nothing lost, nothing half-forgotten."""

import json
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shardgraph.errors import (
    ConfigError,
    DamagedFile,
    DiskFull,
    DuplicateSample,
    ForgottenSample,
    GraphError,
    InputError,
    UnknownSample,
    VerificationError,
    WorkspaceBusy,
    WorkspaceError,
)
from shardgraph.forget.config import FORMAT
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, BySource, OwnGraph, ShardGraph
from shardgraph.storage.tables import inventory
from tests.strategies import FEW_ROWS as ROWS
from tests.strategies import LABELS, QUICK, RING, Row, embed, many, never_saw, promised_files

Usage = namedtuple("Usage", "total used free")


def state(workspace):
    """All that a refused command must leave as it was."""
    tables = ("samples", "units", "built", "erasures", "leaving", "forgotten", "ledger")
    content = {name: workspace.context.catalogue.all(f"SELECT * FROM {name}") for name in tables}
    return content, promised_files(workspace.root), (workspace.root / "config.json").read_bytes()


def sample(name, **changes):
    return replace(embed([Row(name, "ant")]), **changes)


@pytest.mark.parametrize("kind", ["samples", "sources", "subjects", "shards", "labels", "reason"])
def test_a_request_in_half_characters_is_refused_before_anything_is_written(workspace, kind):
    before = state(workspace)
    named = {"samples": (ROWS[0].id,)} | {kind: "\ud800" if kind == "reason" else (ROWS[0].id, "a\ud800")}
    with pytest.raises(InputError, match=f"the {kind} of a request must be valid text"):
        workspace.forget(ForgetRequest(**named))
    assert state(workspace) == before


# What comes in

NAN = np.full((1, 8), np.nan, np.float16)
BAD_SAMPLES = {
    "NaN in tokens": (lambda: replace(sample("x"), tokens=embed([Row("x", "ant")]).tokens * np.nan), "'x'"),
    "infinity in features": (lambda: sample("x", features=np.full((1, 8), np.inf, np.float32)), "'x'"),
    "too large for half precision": (
        lambda: replace(sample("x"), tokens=embed([Row("x", "ant")]).tokens.astype("f8") * 1e9),
        "must fit float16",
    ),
    "tokens of other width": (lambda: embed([Row("x", "ant")], dim=6), r"\(8, 8\) dimensions, got \(6, 6\)"),
    "features of other width": (lambda: sample("x", features=np.ones((1, 5), np.float32)), r"got \(8, 5\)"),
    "tokens of three dimensions": (lambda: sample("x", tokens=np.ones((1, 2, 8), np.float16)), "tokens must"),
    "an id twice": (lambda: embed([Row("x", "ant"), Row("y", "bee"), Row("x", "bee")]), "'x'"),
    "an id that is here": (lambda: embed([Row("x", "ant"), ROWS[3]]), ROWS[3].id),
    "an empty label": (lambda: embed([Row("x", "")]), "label"),
    "no source for a shard": (lambda: embed([Row("x", "ant", source="")]), "'x'"),
}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("case", BAD_SAMPLES)
def test_a_bad_sample_is_named_and_none_comes_in(workspace, case):
    before = state(workspace)
    make, named = BAD_SAMPLES[case]
    with pytest.raises((InputError, GraphError), match=named):
        workspace.add(make())
    assert state(workspace) == before
    assert workspace.verify().ok


def test_a_duplicate_and_a_forgotten_sample_are_errors_of_their_own(workspace):
    with pytest.raises(DuplicateSample) as caught:
        workspace.add(embed([ROWS[0]]))
    assert caught.value.ids == (ROWS[0].id,)
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    with pytest.raises(ForgottenSample) as caught:
        workspace.add(embed([ROWS[0]]))
    assert caught.value.ids == (ROWS[0].id,)
    assert workspace.add(embed([ROWS[0]]), allow_return=True) == 1


def test_a_sample_outside_your_graph_is_refused(create):
    workspace = create(classes=LABELS)
    workspace.add(embed(many(6)))
    with pytest.raises(GraphError, match="'bob'"):
        workspace.train(OwnGraph(ShardGraph(("ann", "web"))), QUICK)
    assert not workspace.config.trained
    workspace.train(OwnGraph(ShardGraph(("ann", "bob", "web"))), QUICK)
    with pytest.raises(GraphError, match="'cid'"):
        workspace.add(embed([Row("x", "ant", source="cid")]))
    assert workspace.status()["waiting"] == 0


# What a request names


@pytest.mark.parametrize(
    "request_",
    [
        ForgetRequest(samples=("nobody",)),
        ForgetRequest(sources=("nobody",)),
        ForgetRequest(subjects=("nobody",)),
        ForgetRequest(labels=("nobody",)),
        ForgetRequest(shards=("nobody",)),
        ForgetRequest(samples=(ROWS[0].id, "nobody")),
        ForgetRequest(samples=("nobody",), sources=("ann",)),
    ],
    ids=repr,
)
def test_a_request_that_names_the_unknown_changes_nothing(workspace, request_):
    before = state(workspace)
    for ask in (workspace.plan, workspace.forget):
        with pytest.raises(UnknownSample, match="nobody") as caught:
            ask(request_)
        assert caught.value.ids == ("nobody",)
    assert state(workspace) == before


def test_a_label_that_is_declared_and_has_no_samples_is_unknown(create):
    workspace = create(classes=[*LABELS, "eel"])
    workspace.add(embed(ROWS))
    workspace.train(Bilevel(1, 2), QUICK)
    with pytest.raises(UnknownSample, match="label 'eel'"):
        workspace.forget(ForgetRequest(labels=("eel",)))


@pytest.mark.parametrize("kind", ["samples", "sources", "subjects", "labels", "shards"])
def test_an_empty_name_does_not_mean_all_that_have_none(workspace, kind):
    """A script whose variable is empty must not forget everybody without a subject."""
    before = state(workspace)
    with pytest.raises(InputError, match="empty"):
        workspace.forget(ForgetRequest(**{kind: ("",)}))
    with pytest.raises(InputError, match="at least one"):
        workspace.forget(ForgetRequest())
    assert state(workspace) == before


def test_what_was_forgotten_already_gives_its_certificate(workspace):
    first = workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    second = workspace.forget(ForgetRequest(sources=("bob",)))
    before = state(workspace)
    assert workspace.forget(ForgetRequest(samples=(ROWS[0].id,))) == first
    assert workspace.forget(ForgetRequest(sources=("bob",))) == second
    assert workspace.plan(ForgetRequest(sources=("bob",))).already == (2,)
    assert state(workspace) == before


def test_a_stale_plan_is_refused(workspace):
    plan = workspace.plan(ForgetRequest(sources=("ann",)))
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    before = state(workspace)
    with pytest.raises(WorkspaceError, match="stale"):
        workspace.forget(plan)
    assert state(workspace) == before


# What is left


def test_a_sample_is_forgotten_while_it_waits_in_the_inbox(create, fast_path):
    for name in ("before", "after"):
        workspace = create(name, classes=LABELS)
        workspace.add(embed(ROWS))
        if name == "after":
            workspace.train(BySource(), QUICK)
            workspace.add(embed([Row("late one", "ant"), Row("late two", "bee")]))
        certificate = workspace.forget(ForgetRequest(samples=(ROWS[1].id, *(["late one"] if name == "after" else []))))
        assert certificate.event == "forget"
        workspace.train(BySource(), QUICK)
        kept = [row for row in ROWS if row is not ROWS[1]] + ([Row("late two", "bee")] if name == "after" else [])
        assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / f"never-{name}")


def test_the_whole_inbox_is_forgotten_before_the_first_training(create):
    workspace = create()
    workspace.add(embed(ROWS))
    certificate = workspace.forget(ForgetRequest(labels=LABELS))
    assert (certificate.model_digest, certificate.missing, len(certificate.entries)) == ("", 0, 20)
    assert list((workspace.root / "inbox").rglob("*.safetensors")) == []
    with pytest.raises(InputError, match="nothing to train on"):
        workspace.train(BySource(), QUICK)
    assert workspace.verify(full=True).ok


def test_a_test_sample_is_forgotten_and_no_adapter_is_rebuilt(workspace, fast_path):
    models = {name: raw for name, raw in promised_files(workspace.root).items() if name.startswith("models")}
    plan = workspace.plan(ForgetRequest(samples=(ROWS[-1].id,)))
    assert (plan.groups, plan.adapters, plan.revisited) == ((), 0, 0)
    assert workspace.forget(plan).event == "forget"
    assert {n: raw for n, raw in promised_files(workspace.root).items() if n.startswith("models")} == models
    assert promised_files(workspace.root) == never_saw(workspace, ROWS[:-1], fast_path / "never")
    assert workspace.evaluate()["samples"] == 3


def test_all_samples_of_a_group_leave_and_it_is_gone(workspace, fast_path):
    plan = workspace.plan(ForgetRequest(sources=("ann",)))
    assert (plan.groups, plan.vanishing, plan.sources) == (("ann",), ("ann",), ("ann",))
    certificate = workspace.forget(plan)
    assert (certificate.event, certificate.missing) == ("forget", 0)
    kept = [row for row in ROWS if row.source != "ann"]
    assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / "never")


@pytest.mark.parametrize("method", ["safe", "second"])
def test_a_group_left_with_one_class_has_no_adapter_and_prototypes_answer(create, fast_path, method):
    workspace = create(classes=LABELS)
    rows = [Row(f"s{i}", ("ant", "bee")[i % 2], ("ann", "bob")[i // 4]) for i in range(8)]
    workspace.add(embed(rows))
    workspace.train(BySource(), replace(QUICK, loss="bce", method=method))
    gone = tuple(row.id for row in rows if (row.source, row.label) == ("ann", "bee"))
    workspace.forget(ForgetRequest(samples=gone))
    assert set(workspace.train().groups) == {"bob"}
    gone += tuple(row.id for row in rows if (row.source, row.label) == ("bob", "ant"))
    workspace.forget(ForgetRequest(samples=gone[-2:]))
    model = workspace.model()
    assert (model.classes, workspace.status()["groups"]["serving"]) == (("ant", "bee"), 0)
    kept = [row for row in rows if row.id not in gone]
    assert workspace.predict(embed(kept)) == [row.label for row in kept]
    assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / "never")


def test_the_last_sample_of_everything_leaves(workspace):
    workspace.forget(ForgetRequest(labels=LABELS))
    assert inventory.count_samples(workspace.context.catalogue) == 0
    assert [name for name in promised_files(workspace.root) if "/" in name] == []
    with pytest.raises(WorkspaceError, match="knows no class"):
        workspace.predict(embed(ROWS[:1]))
    with pytest.raises(InputError, match="no sample whose split is test"):
        workspace.evaluate()
    assert workspace.verify(full=True).ok


# The configuration


def test_another_topology_or_recipe_after_the_first_training_is_refused(workspace):
    before = state(workspace)
    with pytest.raises(ConfigError, match="fixed the topology"):
        workspace.train(Bilevel(2, 2))
    with pytest.raises(ConfigError, match="fixed the recipe"):
        workspace.train(BySource(), replace(QUICK, epochs=3))
    assert state(workspace) == before
    workspace.train(BySource(), QUICK)


def test_the_first_training_needs_a_topology_and_samples(create):
    workspace = create()
    with pytest.raises(ConfigError, match="needs a topology"):
        workspace.train()
    with pytest.raises(InputError, match="nothing to train on"):
        workspace.train(Bilevel(1, 1))
    workspace.add(embed(many(4, split="test")))
    with pytest.raises(InputError, match="nothing to train on"):
        workspace.train(Bilevel(1, 1))
    workspace.add(embed(many(4, labels=["ant"])))
    with pytest.raises(GraphError, match="at most the number of classes"):
        workspace.train(Bilevel(2, 3))
    assert not workspace.config.trained
    workspace.train(Bilevel(2, 1), QUICK)


def test_heads_that_do_not_divide_are_found_before_anything_is_fixed(create):
    workspace = create()
    workspace.add(embed(ROWS))
    with pytest.raises(ConfigError, match="3 heads for 8"):
        workspace.train(Bilevel(1, 1), replace(QUICK, heads=3))
    assert not workspace.config.trained


@pytest.mark.parametrize(("number", "advice"), [(FORMAT + 1, "upgrade"), (FORMAT - 1, "new workspace")])
def test_a_workspace_of_another_format_is_refused_and_left_alone(number, advice, workspace):
    path = workspace.root / "config.json"
    other = json.dumps({**json.loads(path.read_bytes()), "format": number, "soul": 21}).encode()
    path.write_bytes(other)
    with pytest.raises(ConfigError, match=f"format {number}.*{advice}"):
        Workspace(workspace.root)
    assert path.read_bytes() == other


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"seed": 1}', b"\xff\xfe"], ids=repr)
def test_a_torn_configuration_is_named(workspace, raw):
    (workspace.root / "config.json").write_bytes(raw)
    with pytest.raises(ConfigError, match=r"config\.json"):
        Workspace(workspace.root)


def test_a_folder_that_is_no_workspace_is_named(fast_path, create):
    with pytest.raises(WorkspaceError, match="no workspace at"):
        Workspace(fast_path / "nowhere")
    (fast_path / "full").mkdir()
    (fast_path / "full" / "file").write_text("mine")
    with pytest.raises(WorkspaceError, match="not empty"):
        create("full")


# The machine


def test_a_second_writer_is_told_and_a_reader_is_served(workspace):
    other = Workspace(workspace.root)
    with workspace.context.lock:
        for act in (
            lambda: other.add(embed([Row("x", "ant")])),
            other.train,
            other.repair,
            lambda: other.forget(ForgetRequest(samples=(ROWS[0].id,))),
        ):
            with pytest.raises(WorkspaceBusy):
                act()
        assert other.resume() == []
        assert len(other.predict(embed(ROWS))) == 20
        assert other.plan(ForgetRequest(samples=(ROWS[0].id,))).groups == ("ann",)
        assert other.status()["trained"]
    other.forget(ForgetRequest(samples=(ROWS[0].id,)))
    other.close()


def test_too_little_disk_is_found_first(workspace, monkeypatch):
    workspace.add(embed([Row("late", "ant")]))
    before = state(workspace)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 10**9 - 1000, 1000))
        for act in (
            lambda: workspace.add(embed([Row("x", "ant")])),
            lambda: workspace.forget(ForgetRequest(samples=(ROWS[0].id,))),
            workspace.train,
        ):
            with pytest.raises(DiskFull, match="MB free"):
                act()
        assert state(workspace) == before
    workspace.train()
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def test_a_damaged_shard_is_not_rewritten_as_if_it_were_good(workspace):
    path = workspace.context.store.path("shard:ann")
    damage(path)
    before = state(workspace)
    with pytest.raises(DamagedFile, match=path.name):
        workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    assert state(workspace) == before
    workspace.forget(ForgetRequest(sources=("bob",)))  # the rest goes on
    workspace.add(embed([Row("late", "ant", "ann"), Row("also late", "bee", "web")]))
    for _ in range(2):
        with pytest.raises(DamagedFile, match=path.name):
            workspace.train()
    workspace.forget(ForgetRequest(shards=("ann",)))
    workspace.train()
    assert workspace.verify(full=True).ok
    assert workspace.context.store.read("shard:ann").ids == ("late",)


def test_what_a_missing_shard_held_can_be_forgotten(workspace, fast_path):
    workspace.context.store.path("shard:ann").unlink()
    with pytest.raises(DamagedFile, match="missing"):
        workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    workspace.forget(ForgetRequest(shards=("ann",)))
    kept = [row for row in ROWS if row.source != "ann" or row.split == "test"]
    assert promised_files(workspace.root) == never_saw(workspace, kept, fast_path / "never")


def test_a_damaged_inbox_is_named_and_can_be_forgotten(create):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS[:8]))
    workspace.add(embed(ROWS[8:]))
    damage(workspace.context.store.path("inbox:1"))
    for _ in range(2):
        with pytest.raises(DamagedFile, match="inbox:1"):
            workspace.train(BySource(), QUICK)
    workspace.forget(ForgetRequest(samples=tuple(row.id for row in ROWS[:8])))
    workspace.train(BySource(), QUICK)
    assert workspace.verify(full=True).ok


def test_a_certificate_that_the_next_one_must_name_is_asked_for_before_anything_is_forgotten(workspace):
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    path = workspace.certificates.path(1)
    raw, before = path.read_bytes(), state(workspace)
    path.unlink()
    with pytest.raises(VerificationError, match="missing"):
        workspace.forget(ForgetRequest(samples=(ROWS[1].id,)))
    assert state(workspace) == before
    path.write_bytes(raw)
    assert workspace.forget(ForgetRequest(samples=(ROWS[1].id,))).previous == workspace.certificates.load(1).digest


@pytest.mark.parametrize("name", ["manifest.json", "prototypes.safetensors", "models"])
def test_a_damaged_model_is_named_and_built_anew(workspace, name):
    before = promised_files(workspace.root)
    path = workspace.root / name
    damage(next(path.rglob("*.safetensors")) if path.is_dir() else path)
    with Workspace(workspace.root, workers=1) as again, pytest.raises(DamagedFile, match="torn or was changed"):
        again.predict(embed(ROWS))
    workspace.train(rebuild=True)
    assert promised_files(workspace.root) == before


@pytest.mark.parametrize("name", ["prototypes.safetensors", "models", "rights"])
@pytest.mark.parametrize("how", [damage, Path.unlink], ids=["changed", "missing"])
def test_the_command_that_an_error_names_mends_a_damaged_file_of_the_model(trained, name, how):
    workspace = trained(RING, ROWS)
    workspace.consumers.grant("carol", sources=["ann", "bob"])
    assert workspace.consumers.provision("carol")
    before, own = promised_files(workspace.root), workspace.consumers.model("carol").digest
    path = workspace.root / name
    path = next(path.rglob("*.safetensors")) if path.is_dir() else path
    raw = path.read_bytes()
    how(path)
    wrong = [check.detail for check in workspace.verify().checks if not check.ok]
    command = "`shardgraph repair`" if how is damage else "`shardgraph train`"
    assert len(wrong) == 1 and command in wrong[0], wrong
    if how is damage:
        assert workspace.repair().event == "repair"
    else:
        workspace.train()
    assert path.read_bytes() == raw and promised_files(workspace.root) == before
    assert workspace.consumers.model("carol").digest == own
    assert workspace.verify(full=True).ok and workspace.repair() is None
