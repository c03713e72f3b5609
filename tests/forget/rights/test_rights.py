"""Rights: a consumer's model is a function of the retained data that it may use, whatever happened before."""

import numpy as np
import pytest
import torch

from shardgraph.errors import InputError, NothingToServe, UnknownConsumer, WorkspaceError
from shardgraph.forget.erase import execute
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.rights.rights import Right
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, BySource, BySourceBilevel, OwnGraph, ShardGraph
from shardgraph.learn import prototypes
from shardgraph.learn.ensemble import Model
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.tables import requests
from tests.strategies import LABELS, QUICK, RING, ROWS, SOURCES, Row, embed, many, of

CHAIN = OwnGraph(ShardGraph(SOURCES, frozenset({("ann", "bob"), ("bob", "web")})))


def groups_of(workspace, consumer):
    """The groups that a consumer is served, by name and digest."""
    return {name: adapters.digest for name, adapters in workspace.consumers._model(consumer).adapters.items()}


# What a right covers


def test_a_model_is_made_of_the_adapters_whose_whole_neighbourhood_is_allowed(trained):
    """ann learns from bob, bob from web, web from itself alone."""
    workspace = trained(CHAIN)
    workspace.consumers.grant("c", sources=["web", "ann"])
    assert set(groups_of(workspace, "c")) == {"web"}
    workspace.consumers.grant("c", sources=["bob"])
    assert set(groups_of(workspace, "c")) == {"ann", "bob", "web"}
    assert workspace.consumers.model("c").digest == workspace.model().digest, "all of the data, all of the model"


@pytest.mark.parametrize("topology", [BySource(), BySourceBilevel(2, 2)], ids=lambda t: t.kind)
def test_by_source_the_model_equals_that_of_a_workspace_with_the_allowed_data_alone(trained, topology):
    workspace, alone = trained(topology), trained(topology, of("ann", "web"), "alone")
    workspace.consumers.grant("c", sources=["ann", "web"])
    assert workspace.consumers.model("c").digest == alone.model().digest
    samples = embed(ROWS)
    assert np.array_equal(workspace.consumers.model("c").scores(samples), alone.model().scores(samples))


def test_a_mixed_shard_gives_its_adapters_only_if_all_of_it_is_allowed(trained):
    workspace = trained(Bilevel(2, 1))
    workspace.consumers.grant("c", sources=["ann", "bob"])
    assert groups_of(workspace, "c") == {}
    model, alone = workspace.consumers.model("c"), trained(Bilevel(2, 1), of("ann", "bob"), "alone").model()
    assert model.adapter_logits is None, "prototypes alone answer"
    samples = embed(ROWS)
    assert torch.equal(model.similarity(samples), alone.similarity(samples))


def test_a_shard_is_allowed_by_its_name(trained):
    workspace = trained(Bilevel(3, 1))
    workspace.consumers.grant("c", shards=["c1-f0"])
    assert set(groups_of(workspace, "c")) == {"c1-f0"}
    right = workspace.consumers.rights()["c"]
    assert (right.sources, right.shards, right.provision) == ((), ("c1-f0",), False)


def test_classes_are_those_of_the_allowed_samples(trained):
    rows = [
        *many(12, labels=("ant", "bee"), sources=("ann",)),
        *(row._replace(id=f"b{row.id}") for row in many(8, sources=("bob",))),
    ]
    workspace = trained(BySource(), rows)
    workspace.consumers.grant("c", sources=["ann"])
    assert workspace.model().classes == LABELS
    assert workspace.consumers.model("c").classes == ("ant", "bee")


def test_reach_counts_what_a_right_would_keep(trained):
    workspace = trained(CHAIN)
    reach = workspace.consumers.reach(Right("c", sources=("web", "ann")))
    assert (reach.samples, reach.of_samples) == (16, 24)
    assert (reach.shards, reach.of_shards, reach.groups, reach.of_groups) == (2, 3, 1, 3)
    assert (reach.adapters, reach.of_adapters) == (len({r.label for r in of("web", rows=many(24))}), 12)
    assert (reach.provisioned, reach.lacking, reach.to_revisit) == (0, 1, 8)
    assert workspace.consumers.rights() == {}, "a look changes nothing"
    workspace.consumers.grant("c", sources=["web", "ann"])
    assert workspace.consumers.reach("c") == reach
    assert reach.to_json()["share_of_shards"] == 2 / 3


# Giving and taking


def test_revocation_acts_on_the_next_prediction(trained):
    workspace = trained(BySource())
    workspace.consumers.grant("c", sources=["ann", "bob"])
    before = workspace.consumers.model("c").digest
    workspace.consumers.revoke("c", sources=["bob"])
    assert workspace.consumers.model("c").digest == trained(BySource(), of("ann"), "alone").model().digest
    workspace.consumers.grant("c", sources=["bob"])
    assert workspace.consumers.model("c").digest == before, "taken and given again, it is what it was"
    workspace.consumers.revoke("c")
    with pytest.raises(UnknownConsumer):
        workspace.consumers.model("c")
    assert workspace.consumers.rights() == {}


def test_revocation_in_another_process_acts_on_the_next_prediction(trained):
    workspace = trained(BySource())
    workspace.consumers.grant("c", sources=["ann", "bob"])
    before = workspace.consumers.model("c").digest
    with Workspace(workspace.root, workers=1) as other:
        other.consumers.revoke("c", sources=["bob"])
    assert workspace.consumers.model("c").digest != before
    with Workspace(workspace.root, workers=1) as other:
        other.consumers.revoke("c")
    with pytest.raises(UnknownConsumer):
        workspace.predict(embed(ROWS[:1]), "c")


def test_a_model_is_kept_in_memory_while_nothing_changes(trained):
    workspace = trained(BySource())
    workspace.consumers.grant("c", sources=["ann"])
    assert workspace.consumers.model("c") is workspace.consumers.model("c")
    workspace.consumers.grant("d", sources=["bob"])
    first = workspace.consumers.model("c")
    workspace.consumers.grant("d", sources=["ann"])
    assert workspace.consumers.model("c") is first, "another's right is another's"


def test_a_right_covers_what_comes_later(trained):
    workspace = trained(BySource())
    workspace.consumers.grant("c", sources=["ann"])
    late = [Row(f"late {i}", LABELS[i % 4], "ann") for i in range(5)]
    workspace.add(embed(late))
    workspace.train()
    assert workspace.consumers.model("c").digest == trained(BySource(), [*of("ann"), *late], "alone").model().digest


def test_a_grant_before_training_waits_for_it(create):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    workspace.consumers.grant("c", sources=["ann"])
    with pytest.raises(WorkspaceError, match="no model yet"):
        workspace.consumers.model("c")
    workspace.train(BySource(), QUICK)
    assert set(groups_of(workspace, "c")) == {"ann"}


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda w: w.consumers.grant("c"), InputError, "at least one source or shard"),
        (lambda w: w.consumers.grant("", sources=["ann"]), InputError, "must have a name"),
        (lambda w: w.consumers.grant("c", sources=["nobody"]), InputError, "'nobody'"),
        (lambda w: w.consumers.grant("c", shards=["nowhere"]), InputError, "'nowhere'"),
        (lambda w: w.consumers.grant("c", sources=["ann", ""]), InputError, "''"),
        (lambda w: w.consumers.revoke("c"), UnknownConsumer, "'c'"),
        (lambda w: w.consumers.revoke("ok", sources=["bob"]), InputError, "no right over source 'bob'"),
        (lambda w: w.consumers.model("c"), UnknownConsumer, "'c'"),
        (lambda w: w.consumers.provision("c"), UnknownConsumer, "'c'"),
        (lambda w: w.consumers.reach("c"), UnknownConsumer, "'c'"),
        (lambda w: w.consumers.scores(["ok", "c"], embed(ROWS)), UnknownConsumer, "'c'"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(trained, act, error, words):
    workspace = trained(BySource())
    workspace.consumers.grant("ok", sources=["ann"])
    with pytest.raises(error, match=words):
        act(workspace)
    assert list(workspace.consumers.rights()) == ["ok"]


# Forgetting


@pytest.mark.parametrize("instant", [False, True], ids=["at once", "instant, then repair"])
def test_a_forget_reaches_the_models_of_rights(trained, instant):
    workspace = trained(RING)
    workspace.consumers.grant("c", sources=SOURCES)
    gone = {ROWS[0].id, ROWS[3].id}
    before = workspace.consumers.model("c")
    workspace.forget(ForgetRequest(samples=tuple(gone)), instant=instant)
    if instant:
        assert groups_of(workspace, "c") == {} and workspace.consumers.model("c").digest != before.digest
        workspace.repair()
    alone = trained(RING, [row for row in ROWS if row.id not in gone], "never")
    assert workspace.consumers.model("c").digest == alone.model().digest


def test_a_right_whose_data_is_all_forgotten_serves_nothing_and_names_nobody(trained):
    workspace = trained(BySource())
    workspace.consumers.grant("c", sources=["ann"], shards=["ann"])
    workspace.consumers.grant("d", sources=["bob"])
    workspace.forget(ForgetRequest(sources=("ann",)))
    with pytest.raises(NothingToServe):
        workspace.consumers.model("c")
    assert workspace.consumers.rights()["c"] == Right("c") and workspace.consumers.rights()["d"] == Right("d", ("bob",))


def test_from_the_moment_a_forget_is_accepted_no_right_is_served_what_saw_the_sample(trained):
    """Accepted in one process and not carried out yet; bob's right alone covers what is left of the shard."""
    workspace = trained(Bilevel(1, 1))
    workspace.consumers.grant("c", sources=["bob"])
    workspace.consumers.grant("d", sources=SOURCES)
    assert set(groups_of(workspace, "d")) == {"c0-f0"}
    orders = workspace.plan(ForgetRequest(sources=("ann", "web")))
    execute.accept(workspace.context, orders, instant=False)
    with Workspace(workspace.root, workers=1) as reader:
        sums = total([embed(of("bob", rows=many(24)))], second_order=True, expansion=QUICK.expansion)
        for name in ("c", "d"):
            assert groups_of(reader, name) == {}
            only = Model.assemble({}, sums, QUICK, workspace.config.seed)
            assert reader.consumers.model(name).digest == only.digest


@pytest.mark.parametrize("provisioned", [False, True])
def test_a_sample_that_waits_to_be_forgotten_is_not_used(trained, provisioned):
    workspace = trained(RING)
    workspace.consumers.grant("c", sources=["ann", "bob"])
    if provisioned:
        workspace.consumers.provision("c")
    before, waiting = workspace.consumers.model("c").digest, of("bob")[0].id
    with workspace.context.catalogue.transaction() as db:
        db.execute("INSERT INTO withheld VALUES (?, 1)", (waiting,))
    sums = total(
        [embed([row for row in of("ann", "bob", rows=many(24)) if row.id != waiting])],
        second_order=True,
        expansion=QUICK.expansion,
    )
    assert groups_of(workspace, "c") == {}
    assert workspace.consumers.model("c").digest == Model.assemble({}, sums, QUICK, workspace.config.seed).digest
    with workspace.context.catalogue.transaction() as db:
        requests.release_samples(db, 1)
    assert workspace.consumers.model("c").digest == before, "the request was cancelled"


def test_sums_that_were_changed_equal_sums_made_anew(trained, monkeypatch):
    """Through grants, revocations, waiting samples, forgets and a return with other contents, in one process."""
    described, was = [], prototypes.describe
    monkeypatch.setattr(prototypes, "describe", lambda s, *rest: described.append(len(s)) or was(s, *rest))
    workspace = trained(BySourceBilevel(2, 1))

    def check(most):
        """The sums in memory, which cost so many samples at most, are those of a process that starts anew."""
        del described[:]
        kept = workspace.consumers._model("c").sums.prototypes
        assert sum(described) <= most
        with Workspace(workspace.root, workers=1) as other:
            assert other.consumers._model("c").sums.prototypes.to_bytes() == kept.to_bytes()

    workspace.consumers.grant("c", sources=["ann", "bob"])
    check(16)
    workspace.consumers.grant("c", sources=["web"])
    check(8)
    workspace.consumers.revoke("c", sources=["ann"])
    check(8)
    gone = of("bob", rows=many(24))[0]
    with workspace.context.catalogue.transaction() as db:
        db.execute("INSERT INTO withheld VALUES (?, 1)", (gone.id,))
    check(1)
    with Workspace(workspace.root, workers=1) as other:
        other.forget(ForgetRequest(samples=(gone.id,)))
    check(0)
    with Workspace(workspace.root, workers=1) as other:
        other.forget(ForgetRequest(samples=(of("web", rows=many(24))[0].id,)))
    check(14)  # erased before this process looked: made anew
    with workspace.context.catalogue.transaction() as db:
        requests.release_samples(db, 1)
    with Workspace(workspace.root, workers=1) as other:
        other.add(embed([gone._replace(version=9)]), allow_return=True)
        other.train()
    check(1)


def test_a_sample_that_came_back_with_other_contents_is_counted_as_it_is(trained):
    workspace = trained(BySource())
    workspace.consumers.grant("c", sources=["ann"])
    before, row = workspace.consumers.model("c").digest, of("ann", rows=many(24))[0]
    with Workspace(workspace.root, workers=1) as other:
        other.forget(ForgetRequest(samples=(row.id,)))
        other.add(embed([row._replace(version=9)]), allow_return=True)
        other.train()
        expected = other.consumers.model("c").digest
    assert workspace.consumers.model("c").digest == expected != before


# One pass for many


@pytest.mark.parametrize(
    "recipe", [QUICK, Recipe(adapter="linear", epochs=2, batch=4, method="safe")], ids=["inca", "linear"]
)
def test_one_forward_pass_serves_many_rights(trained, recipe):
    workspace = trained(BySource(), recipe=recipe)
    rights = {"a": ["ann"], "ab": ["ann", "bob"], "all": SOURCES}
    for name, sources in rights.items():
        workspace.consumers.grant(name, sources=sources)
    workspace.consumers.grant("mixed", shards=["web"])
    samples = embed([*ROWS, *(row._replace(id=f"x{row.id}", version=2) for row in ROWS * 2)])
    found = workspace.consumers.scores([*rights, "mixed"], samples)
    passes = []
    logits = workspace.consumers._shared.adapter_logits
    object.__setattr__(
        workspace.consumers._shared, "adapter_logits", lambda chunk: passes.append(len(chunk)) or logits(chunk)
    )
    again = workspace.consumers.scores([*rights, "mixed"], samples)
    assert sum(passes) == len(samples), "each sample went through the adapters once"
    for name, answer in found.items():
        own = workspace.consumers.model(name)
        assert (answer.classes, answer.digest) == (own.classes, own.digest)
        # A product over other adapters beside may round its last bits otherwise.
        assert np.allclose(answer.scores, own.scores(samples), rtol=1e-4, atol=1e-5)
        assert np.array_equal(answer.scores, again[name].scores)
        assert answer.labels() == own.predict(samples)


def test_masked_adapters_leave_no_trace_in_an_answer(trained):
    """What a right does not cover may be anything: the answer is the same."""
    workspace = trained(BySource())
    other = trained(BySource(), [row._replace(version=5) if row.source == "bob" else row for row in ROWS], "other")
    samples, answers = embed(ROWS), []
    for each in (workspace, other):
        each.consumers.grant("c", sources=["ann"])
        each.consumers.grant("d", sources=["bob"])
        answers.append(each.consumers.scores(["c", "d"], samples))
    assert np.array_equal(answers[0]["c"].scores, answers[1]["c"].scores)
    assert not np.array_equal(answers[0]["d"].scores, answers[1]["d"].scores)
