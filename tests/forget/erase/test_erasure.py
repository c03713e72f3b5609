"""After a forget nothing of the sample is in any file of the workspace, raw bytes and old names included."""

import os
import re

import numpy as np
import pytest

from shardgraph.errors import WorkspaceError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, BySource, Complete
from shardgraph.storage.samples import pack_samples
from shardgraph.storage.tables import erasures, inventory
from tests.strategies import LABELS, QUICK, Row, all_bytes, embed, many

ROWS = [*many(40), *many(8, split="test")]
TOPOLOGIES = [Bilevel(2, 2), BySource(safe=("web",)), Complete(3)]
KINDS = {
    "samples": ForgetRequest(samples=tuple(row.id for row in (ROWS[0], ROWS[7], ROWS[43]))),
    "a source": ForgetRequest(sources=("bob",)),
    "a subject": ForgetRequest(subjects=("p1",)),
    "a label": ForgetRequest(labels=("bee",)),
}


def leaving(request):
    return [
        row
        for row in ROWS
        if row.id in request.samples
        or row.source in request.sources
        or row.subject in request.subjects
        or row.label in request.labels
    ]


def marks_of(row):
    """Raw bytes by which a sample could be recognised: its id, and every token and feature in any width."""
    sample = embed([row])
    tokens = [*sample.tokens, sample.features[0]]
    rows = [array.astype(dtype).tobytes() for array in tokens for dtype in (np.float16, np.float32)]
    return [row.id.encode(), *rows]


@pytest.mark.parametrize("instant", [False, True], ids=["at once", "instant"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.kind)
def test_nothing_of_a_forgotten_sample_is_in_any_file(create, topology, kind, instant):
    workspace, request = create(classes=LABELS), KINDS[kind]
    workspace.add(embed(ROWS[:20]))
    workspace.add(embed(ROWS[20:]))
    workspace.train(topology, QUICK)
    gone = leaving(request)
    assert len(gone) > 2
    before = b"".join(all_bytes(workspace.root).values())
    for row in gone:
        assert marks_of(row)[0] in before and any(mark in before for mark in marks_of(row)[1:]), "the search works"
    workspace.forget(request, instant=instant)
    for closed in (False, True):  # while it is open, with its log, and after
        files = all_bytes(workspace.root)
        found = {name for name, raw in files.items() for row in gone for mark in marks_of(row) if mark in raw}
        assert found == set()
        assert [name for name in files if name.startswith(("scratch", "inbox"))] == []
        if not closed:
            workspace.close()


def test_what_held_the_sample_is_overwritten_and_not_only_unlinked(create, fast_path):
    """Hard links made beforehand see the zeros: the shard, the prototypes, the manifest, the adapters, the inbox."""
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    inbox = list((workspace.root / "inbox").rglob("*.safetensors"))
    witnesses = watch(workspace, fast_path / "inbox-links", inbox)
    workspace.train(BySource(), QUICK)
    assert all(set(path.read_bytes()) <= {0} for path in witnesses.values())

    touched = [workspace.context.store.path("shard:ann"), workspace.root / "manifest.json"]
    touched += [workspace.root / "prototypes.safetensors"]
    untouched = [workspace.context.store.path("shard:bob")]
    models = {path.read_bytes(): path for path in (workspace.root / "models").rglob("*.safetensors")}
    witnesses = watch(workspace, fast_path / "links", [*touched, *untouched, *models.values()])
    workspace.forget(ForgetRequest(samples=(ROWS[0].id,)))
    zeroed = {path for path, witness in witnesses.items() if set(witness.read_bytes()) == {0}}
    assert set(touched) <= zeroed and not set(untouched) & zeroed
    assert len(zeroed & set(models.values())) == 1, "ann's adapters, and nobody else's"


def watch(workspace, folder, paths):
    folder.mkdir()
    found = {}
    for i, path in enumerate(paths):
        found[path] = folder / str(i)
        os.link(path, found[path])
    return found


def test_erased_samples_are_absent_after_reopening(trained):
    workspace = trained(Bilevel(2, 2), ROWS)
    gone = {row.id for row in leaving(KINDS["a source"])}
    workspace.forget(KINDS["a source"])
    workspace.close()
    with Workspace(workspace.root) as again:
        assert inventory.known_ids(again.context.catalogue, gone) == set()
        assert erasures.count_leaving(again.context.catalogue) == 0
        catalogue = again.context.catalogue
        units = inventory.unit_digests(catalogue)
        assert not gone & {i for unit in units for i in again.context.store.read(unit).ids}
        assert "bob" not in {row.source for unit in units for row in inventory.find_in_unit(catalogue, unit)}


def test_the_names_of_a_forgotten_source_and_subject_are_gone_too(trained):
    """Where a source names a shard and a group: from the catalogue, the manifest and the journal."""
    names = ("a-source-that-left", "a-subject-that-left")
    theirs = [Row(f"theirs {i}", LABELS[i % 4], *names) for i in range(6)]
    workspace = trained(BySource(safe=("web",)), [*ROWS, *theirs])
    before = b"".join(all_bytes(workspace.root).values())
    assert all(name.encode() in before for name in names)
    workspace.forget(ForgetRequest(sources=names[:1]))
    for closed in (False, True):
        found = [name for name, raw in all_bytes(workspace.root).items() if any(n.encode() in raw for n in names)]
        assert found == []
        if not closed:
            workspace.close()


def test_success_is_not_reported_while_a_reader_keeps_the_log(trained):
    """Nor when the request is made again: only once the log could be emptied."""
    workspace = trained(BySource(), ROWS)
    reader = Workspace(workspace.root)
    reader.context.catalogue._db.execute("BEGIN")
    inventory.count_samples(reader.context.catalogue)
    workspace.context.catalogue._db.execute("PRAGMA busy_timeout=50")
    for _ in range(2):
        with pytest.raises(WorkspaceError, match="reader"):
            workspace.forget(KINDS["samples"])
    reader.close()
    assert workspace.forget(KINDS["samples"]).number == 1
    gone = [row.id.encode() for row in leaving(KINDS["samples"])]
    assert [name for name, raw in all_bytes(workspace.root).items() if any(i in raw for i in gone)] == []


def test_messages_of_progress_carry_no_ids(trained):
    told = []
    workspace = trained(Bilevel(2, 2), ROWS, progress=lambda *step: told.append(step))
    workspace.forget(KINDS["samples"])
    workspace.verify(full=True)
    assert {what for what, _, _ in told} >= {"placing", "training", "verifying"}
    assert not re.search("sample-", repr(told))


def test_the_ledger_and_the_requests_carry_no_ids_and_no_plain_digests(create):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    before = workspace.train(Bilevel(2, 2), QUICK)
    workspace.forget(KINDS["samples"])
    tables = ("requests", "erasures", "ledger", "forgotten")
    text = repr([workspace.context.catalogue.all(f"SELECT * FROM {table}") for table in tables])
    assert "sample-" not in text
    assert before.model_digest not in text and before.prototypes not in text


def test_a_shard_of_the_forgotten_is_not_kept_for_the_next_reader(trained):
    workspace = trained(Complete(2), ROWS)
    reader = Workspace(workspace.root)
    old = reader.model().digest
    workspace.forget(KINDS["samples"], instant=True)
    assert reader.model().digest != old
    assert reader.model().adapter_logits is None, "both shards were one group: only prototypes are left"
    workspace.repair()
    assert reader.model().digest == workspace.status()["model_digest"]
    reader.close()
    assert pack_samples(workspace.views.held_out()) == pack_samples(
        embed([row for row in ROWS if row.split == "test" and row is not ROWS[43]])
    )


def test_what_was_to_be_destroyed_later_is_gone_before_a_forget_that_failed_is_certified(trained, monkeypatch):
    workspace = trained(Complete(2), ROWS)
    witness = workspace.root.parent / "witness"
    os.link(workspace.root / "prototypes.safetensors", witness)

    def full(*given):
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(execute, "erase", full)
        with pytest.raises(OSError, match="no room"):
            workspace.forget(KINDS["samples"])
    assert len(workspace.resume()) == 1
    assert not any(witness.read_bytes()) and not list((workspace.root / "scratch").iterdir())
