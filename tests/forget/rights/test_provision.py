"""Provisioning: groups of the allowed data alone, with the bytes of a workspace that holds nothing else."""

import json
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardgraph.errors import DamagedFile, UnknownConsumer
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.rights.provision import provisioned_groups, strays
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, BilevelAcross, BySource, Complete, OwnGraph, ShardGraph
from shardgraph.storage.tables import ledger
from tests.strategies import (
    LABELS,
    RING,
    ROWS,
    SOURCES,
    Row,
    all_bytes,
    embed,
    interrupted,
    of,
    promised_files,
    recipes,
    rows,
    topologies,
)

ACROSS = BilevelAcross(2, 1)  # two cliques of three shards, one a source
MANY = [RING, BilevelAcross(2, 2), Bilevel(2, 2), Complete(3), BySource(safe=("ann", "bob"))]


def provisioned_files(root):
    return sorted((root / "rights").rglob("*.safetensors"))


@pytest.mark.parametrize("topology", MANY, ids=lambda t: t.kind)
def test_a_provisioned_model_equals_that_of_a_workspace_with_the_allowed_data_alone(trained, topology):
    workspace, alone = trained(topology), trained(topology, of("ann", "bob"), "alone")
    before = promised_files(workspace.root)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    lacking = workspace.consumers.reach("c").lacking
    assert workspace.consumers.provision("c") == lacking
    assert workspace.consumers.model("c").digest == alone.model().digest
    mine = {name: adapters.to_bytes() for name, adapters in workspace.consumers._model("c").adapters.items()}
    theirs = {path.read_bytes() for path in (alone.root / "models").rglob("*.safetensors")}
    assert set(mine.values()) == theirs
    assert promised_files(workspace.root) == before, "the workspace's own model is what it was"
    assert workspace.consumers.reach("c").lacking == 0 and workspace.consumers.provision("c") == 0
    assert workspace.verify(full=True).ok


def test_what_the_right_keeps_of_the_workspace_is_not_trained_again(trained):
    chain = OwnGraph(ShardGraph(SOURCES, frozenset({("ann", "bob"), ("bob", "web")})))
    workspace = trained(chain)
    workspace.consumers.grant("c", sources=["ann", "web"])
    assert workspace.consumers.provision("c") == 1, "ann learned from bob, who is not allowed; web is kept as it is"
    assert [group.name for group in provisioned_groups(workspace.context.catalogue)] == ["ann"]
    assert len(provisioned_files(workspace.root)) == 1


@pytest.mark.parametrize("instant", [False, True], ids=["at once", "instant, then repair"])
@pytest.mark.parametrize("topology", [ACROSS, Bilevel(2, 1)], ids=["cliques", "mixed shards"])
def test_a_forget_reaches_provisioned_groups_in_the_same_request(trained, fast_path, topology, instant):
    workspace = trained(topology)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.grant("d", sources=["web"])
    workspace.consumers.provision("c")
    gone = [row.id for row in of("ann")[:2]]
    for i, path in enumerate(provisioned_files(workspace.root)):
        os.link(path, fast_path / f"witness{i}")
    certificate = workspace.forget(ForgetRequest(samples=tuple(gone)), instant=instant)
    assert certificate.provisioned > 0
    assert json.loads(workspace.certificates.path(1).read_text())["provisioned"] == certificate.provisioned
    (accepted,) = ledger.last_events(workspace.context.catalogue, "accepted", 2)
    assert accepted.detail["provisioned"] == certificate.provisioned
    witnesses = [path.read_bytes() for path in fast_path.glob("witness*")]
    assert sum(set(raw) == {0} for raw in witnesses) == certificate.provisioned, "those that saw it are overwritten"
    if instant:
        assert len(provisioned_groups(workspace.context.catalogue)) == len(witnesses) - certificate.provisioned
        workspace.repair()
    retained = [row for row in ROWS if row.id not in gone]
    alone = trained(topology, of("ann", "bob", rows=retained), "alone")
    assert workspace.consumers.model("c").digest == alone.model().digest
    assert workspace.verify(full=True).ok
    assert not [name for name, raw in all_bytes(workspace.root).items() if any(i.encode() in raw for i in gone)]


def test_a_certificate_says_nothing_of_rights_where_there_are_none(trained):
    workspace = trained(RING)
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    assert "provisioned" not in workspace.certificates.path(1).read_text()


def test_new_samples_reach_provisioned_groups_with_the_next_training(trained):
    workspace = trained(RING)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.provision("c")
    late = [Row(f"late {i}", LABELS[i % 4], SOURCES[i % 3]) for i in range(9)]
    workspace.add(embed(late))
    workspace.train()
    alone = trained(RING, of("ann", "bob", rows=[*ROWS, *late]), "alone")
    assert workspace.consumers.model("c").digest == alone.model().digest


def test_a_revoked_right_keeps_no_file_and_no_row(trained, fast_path):
    workspace = trained(RING)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.provision("c")
    before = workspace.consumers.model("c").digest
    for i, path in enumerate(provisioned_files(workspace.root)):
        os.link(path, fast_path / f"witness{i}")
    workspace.consumers.revoke("c")
    assert not (workspace.root / "rights").exists()
    assert provisioned_groups(workspace.context.catalogue) == []
    assert all(set(path.read_bytes()) == {0} for path in fast_path.glob("witness*"))
    workspace.consumers.grant("c", sources=["ann", "bob"])
    assert not workspace.consumers.rights()["c"].provision, "given again, it is not provisioned unasked"
    workspace.consumers.provision("c")
    assert workspace.consumers.model("c").digest == before


@pytest.mark.parametrize("topology", [ACROSS, Bilevel(2, 1)], ids=["cliques", "mixed shards"])
def test_a_smaller_right_serves_nothing_that_saw_more(trained, topology):
    workspace = trained(topology)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.provision("c")
    saw_both = {group.key for group in provisioned_groups(workspace.context.catalogue)}
    assert len(saw_both) == 2
    workspace.consumers.revoke("c", sources=["bob"])
    assert provisioned_groups(workspace.context.catalogue) == [] and provisioned_files(workspace.root) == []
    assert workspace.consumers.model("c").adapter_logits is None, "prototypes answer until it is provisioned again"
    assert workspace.consumers.rights()["c"].provision and workspace.consumers.reach("c").lacking == 2
    workspace.consumers.provision("c")
    assert workspace.consumers.model("c").digest == trained(topology, of("ann"), "alone").model().digest


def test_a_wider_right_drops_what_learned_from_less(trained):
    workspace = trained(ACROSS)
    workspace.consumers.grant("c", sources=["ann"])
    workspace.consumers.provision("c")
    workspace.consumers.grant("c", sources=["bob"])
    assert provisioned_groups(workspace.context.catalogue) == []
    workspace.consumers.provision("c")
    assert workspace.consumers.model("c").digest == trained(ACROSS, of("ann", "bob"), "alone").model().digest


def test_a_training_that_was_interrupted_serves_no_stale_group(trained):
    """New samples lie in their shards, and the groups have not learned from them yet."""
    workspace = trained(ACROSS)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.provision("c")
    workspace.add(embed([Row(f"late {i}", LABELS[i % 4], "ann") for i in range(8)]))
    workspace.close()

    def stop(what, done, of):
        if what == "placing" and done == of:
            raise KeyboardInterrupt

    with Workspace(workspace.root, workers=1, progress=stop) as stopped, pytest.raises(KeyboardInterrupt):
        stopped.train()
    with Workspace(workspace.root, workers=1) as again:
        assert again.consumers.model("c").adapter_logits is None
        again.train()
        assert len(again.consumers._model("c").adapters) == 2


def test_rights_with_groups_of_one_name_answer_side_by_side(trained):
    """Two rights over one clique: their groups share a name and not their samples."""
    workspace = trained(Complete(1))
    for name, sources in {"c": ["ann", "bob"], "d": ["ann", "web"]}.items():
        workspace.consumers.grant(name, sources=sources)
        workspace.consumers.provision(name)
    names = [group.name for group in provisioned_groups(workspace.context.catalogue)]
    assert names == ["s0", "s0"]
    samples = embed(ROWS)
    for name, answer in workspace.consumers.scores(["c", "d"], samples).items():
        assert answer.labels() == workspace.consumers.model(name).predict(samples)


def test_a_rebuild_mends_a_damaged_provisioned_group(trained):
    workspace = trained(RING)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.provision("c")
    digest = workspace.consumers.model("c").digest
    path = provisioned_files(workspace.root)[0]
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert [check.name for check in workspace.verify().checks if not check.ok] == ["rights"]
    workspace.consumers._models.clear()
    with pytest.raises(DamagedFile, match="rebuild"):
        workspace.consumers.model("c")
    workspace.train(rebuild=True)
    assert workspace.consumers.model("c").digest == digest
    assert workspace.verify(full=True).ok


def test_a_swapped_provisioned_group_is_found_by_rebuilding(trained):
    workspace = trained(ACROSS)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    workspace.consumers.provision("c")
    first, second = provisioned_groups(workspace.context.catalogue)
    shutil.copyfile(second.path(workspace.root), first.path(workspace.root))
    with workspace.context.catalogue.transaction() as db:
        db.execute("UPDATE provisioned SET digest = ? WHERE name = ?", (second.digest, first.name))
    assert workspace.verify().ok
    assert [check.name for check in workspace.verify(full=True).checks if not check.ok] == ["rights rebuilt"]


# Interrupted


def copies(base, folder, first, step):
    for after in count(first, step):
        root = folder / f"copy{after}"
        shutil.copytree(base, root)
        with Workspace(root, workers=1) as workspace:
            yield after, workspace
        shutil.rmtree(root)


@pytest.mark.parametrize("act", ["provision", "revoke", "forget"])
def test_an_act_interrupted_anywhere_can_be_repeated_and_leaves_nothing_behind(trained, fast_path, act):
    gone = [ROWS[0].id, ROWS[1].id]
    with trained(Bilevel(2, 1)) as base:
        base.consumers.grant("c", sources=["ann", "bob"])
        if act != "provision":
            base.consumers.provision("c")
    kept = of("ann", "bob", rows=[row for row in ROWS if act != "forget" or row.id not in gone])
    expected = trained(Bilevel(2, 1), kept, "alone").model().digest
    acts = {
        "provision": lambda w: w.consumers.provision("c"),
        "revoke": lambda w: w.consumers.revoke("c"),
        "forget": lambda w: w.forget(ForgetRequest(samples=tuple(gone))),
    }
    for after, workspace in copies(base.root, fast_path, 5, 37):
        stopped = interrupted(after, lambda w=workspace: acts[act](w))
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            again.resume()
            assert strays(again.context.store) == [], f"interrupted before line {after}"
            if act == "revoke":
                if again.consumers.rights():
                    again.consumers.revoke("c")
                assert list((again.root / "rights").rglob("*")) == []
                with pytest.raises(UnknownConsumer):
                    again.consumers.model("c")
            else:
                acts[act](again)
                assert again.consumers.model("c").digest == expected, f"interrupted before line {after}"
            verification = again.verify()
            assert verification.ok, f"interrupted before line {after}: {verification}"
            assert not list((again.root / "scratch").iterdir())
        if not stopped:
            break


# Any history


@settings(max_examples=100)
@given(drawn=rows(most=12, least=4), topology=topologies(), recipe=recipes(), data=st.data())
def test_a_right_with_any_history_equals_a_workspace_with_the_allowed_data_alone(drawn, topology, recipe, data):
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    drawn = [row._replace(split="train") for row in drawn]
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        with Workspace.create(Path(folder) / "ws", seed=3, classes=LABELS, workers=1) as workspace:
            workspace.add(embed(drawn))
            workspace.train(topology, recipe)
            left, right = list(drawn), set()
            for event in data.draw(st.lists(st.sampled_from(("grant", "revoke", "forget", "provision")), max_size=6)):
                here = sorted({row.source for row in left})
                if event == "grant":
                    given = data.draw(st.sampled_from(here), label="granted")
                    workspace.consumers.grant("c", sources=[given])
                    right.add(given)
                elif event == "revoke" and right:
                    taken = data.draw(st.sampled_from(sorted(right)), label="revoked")
                    workspace.consumers.revoke("c", sources=[taken])
                    right.remove(taken)
                elif event == "provision" and right:
                    workspace.consumers.provision("c")
                elif event == "forget" and len(left) > 1:
                    gone = data.draw(st.sampled_from(left), label="forgotten")
                    workspace.forget(ForgetRequest(samples=(gone.id,)))
                    left.remove(gone)
                    right &= {row.source for row in left}  # a source's name leaves the rights with its last sample
            allowed = [row for row in left if row.source in right]
            if not allowed:
                return
            workspace.consumers.provision("c")
            found = workspace.consumers.model("c").digest
            assert workspace.verify(full=True).ok
        with Workspace.create(Path(folder) / "alone", seed=3, classes=LABELS, workers=1) as alone:
            alone.add(embed(allowed))
            alone.train(topology, recipe)
            assert found == alone.model().digest
