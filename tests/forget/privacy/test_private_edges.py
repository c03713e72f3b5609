"""Private edges in a workspace: what is charged and when, what is stated, what stays exact, what is refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardgraph.errors import ConfigError, DamagedFile, GraphError, InputError, WorkspaceError
from shardgraph.forget.build.wanted import group_path, tasks_for, wanted_groups
from shardgraph.forget.classifier import SafeClassifier
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.privacy.charges import GONE, Charges
from shardgraph.forget.proof.certificate import Certificate, certificate_path, check_certificate
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel, OwnGraph, ShardGraph
from shardgraph.learn.executors.ray import RayExecutor
from shardgraph.learn.private.accounting.budget import PAPER, Budget
from shardgraph.learn.private.accounting.mechanism import epsilon
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.files import scratch_file
from shardgraph.storage.tables import inventory
from tests.strategies import CLIQUE, LABELS, LINEAR, ROWS, SOURCES, STEPS, TERMS, all_bytes, embed, interrupted, many


def edges(*pairs, private=()):
    """A graph of one's own over the sources; an edge is written "ab" for ann to bob, "w" for web."""
    names = {"a": "ann", "b": "bob", "w": "web"}
    plain = {(names[i], names[j]) for i, j in pairs}
    hidden = {(names[i], names[j]) for i, j in private}
    return OwnGraph(ShardGraph(SOURCES, frozenset(plain | hidden), frozenset(hidden), 2.0 if hidden else float("inf")))


# ann and bob learn from each other as they like, web from bob in private
MIXED, GIVEN = edges("ab", "ba", private=("wb",)), replace(TERMS, every=False)


def charges(workspace):
    return Charges.load(workspace.context.catalogue)


def builds(workspace):
    return {name: len(each) for name, each in charges(workspace).releases.builds}


def removed(workspace):
    return {name: charges(workspace).releases.removed(name) for name in builds(workspace)}


def request_for(source, count=1, skip=0):
    """A request for some training samples of a source."""
    ids = [row.id for row in ROWS if row.source == source and row.split == "train"]
    return ForgetRequest(samples=tuple(ids[skip : skip + count]))


def model_bytes(workspace, name):
    return group_path(workspace.root, name).read_bytes()


# What is charged


def test_a_first_training_releases_every_group_once(private):
    workspace = private()
    assert builds(workspace) == dict.fromkeys(SOURCES, 1) and removed(workspace) == dict.fromkeys(SOURCES, 0)
    loss = workspace.status()["privacy"]["sample_loss"]
    assert loss == {"epsilon": epsilon([workspace.config.the_privacy().mechanism] * 2, 1e-20)[0], "method": "rdp"}
    assert loss["epsilon"] <= 2.0
    workspace.train()
    assert builds(workspace) == dict.fromkeys(SOURCES, 1), "nothing was missing, so nothing was released"


def test_the_noise_is_for_the_samples_that_most_groups_read(private):
    workspace = private(edges(private=("ab", "wb", "wa")), GIVEN)
    assert workspace.status()["privacy"]["sample_loss"]["epsilon"] <= 2.0


def test_a_training_with_too_many_samples_for_delta_is_refused(private):
    """delta must stay below one over their number."""
    workspace = private(terms=PrivacyTerms(2.0, 0.9 / 24, PAPER, recipe=STEPS))
    workspace.add(embed([row._replace(id=f"late {row.id}") for row in ROWS[:24]]))
    with pytest.raises(InputError, match="delta must be below"):
        workspace.train()


def test_a_request_retrains_those_who_used_it_directly_and_charges_the_others(private):
    workspace = private()
    before = {name: model_bytes(workspace, name) for name in SOURCES}
    plan = workspace.plan(request_for("ann", 2))
    assert plan.groups == ("ann",)
    assert plan.spending.charged == ("bob", "web") and plan.spending.after.removed == 2
    certificate = workspace.forget(request_for("ann", 2))
    assert removed(workspace) == {"ann": 0, "bob": 2, "web": 2}, "two samples cost two"
    assert builds(workspace) == {"ann": 2, "bob": 1, "web": 1}, "ann's shard read its neighbours once more"
    after = {name: model_bytes(workspace, name) for name in SOURCES}
    assert after["bob"] == before["bob"] and after["web"] == before["web"] and after["ann"] != before["ann"]
    assert certificate.privacy["removed"] == 2 and certificate.privacy["alpha"] == plan.spending.after.alpha


def test_repeating_a_request_charges_nothing(private):
    workspace = private()
    first = workspace.forget(request_for("ann"))
    once = charges(workspace)
    assert workspace.forget(request_for("ann")) == first
    assert charges(workspace) == once


def test_held_out_and_waiting_samples_cost_nothing(private):
    workspace = private()
    late = many(3)[0]._replace(id="late", source="ann")
    workspace.add(embed([late]))
    held_out = next(row.id for row in ROWS if row.split == "test")
    plan = workspace.plan(ForgetRequest(samples=("late", held_out)))
    assert plan.charges == () and plan.spending.charged == ()
    workspace.forget(ForgetRequest(samples=("late", held_out)))
    assert removed(workspace) == dict.fromkeys(SOURCES, 0)


def test_what_would_overflow_is_trained_anew_before_the_answer(private):
    terms = replace(TERMS, budget=Budget(3.0, 1.0))
    workspace = private(terms=terms)
    first = workspace.forget(request_for("ann"))
    assert first.privacy["removed"] == 1 and builds(workspace)["bob"] == 1
    bob = model_bytes(workspace, "bob")
    plan = workspace.plan(request_for("ann", skip=1))
    assert set(plan.spending.over) & {"bob", "web"} and set(plan.spending.over) <= set(plan.groups)
    certificate = workspace.forget(request_for("ann", skip=1))
    assert certificate.event == "forget" and certificate.missing == 0
    assert certificate.privacy["alpha"] <= 3.0
    for name in plan.spending.over:
        assert removed(workspace)[name] == 0 and builds(workspace)[name] == 2
    assert "bob" not in plan.spending.over or model_bytes(workspace, "bob") != bob


def test_an_instant_forget_withdraws_what_would_overflow(private):
    workspace = private(terms=replace(TERMS, budget=Budget(3.0, 1.0)))
    workspace.forget(request_for("ann"))
    certificate = workspace.forget(request_for("ann", skip=1), instant=True)
    assert certificate.event == "instant" and certificate.missing >= 2
    assert "exact" not in certificate.guarantee and "withdrawn" in certificate.guarantee
    repaired = workspace.repair()
    assert repaired.missing == 0 and repaired.privacy["alpha"] <= 3.0
    assert workspace.verify(full=True).ok


def test_requests_that_wait_together_withhold_what_their_sum_would_overflow(private):
    workspace = private(terms=replace(TERMS, budget=Budget(3.0, 1.0)))
    whole = len(workspace.model().average)
    first = workspace.queue.submit(Submission(request_for("ann"))).number
    own = whole - len(workspace.model().average)  # the adapters of ann, which used it directly
    workspace.queue.submit(Submission(request_for("ann", skip=1)))
    assert 0 < own < whole - len(workspace.model().average), "others have no budget for both"
    workspace.queue.cancel(first)
    assert len(workspace.model().average) == whole - own, "for one of them they have"


def test_a_neighbours_change_does_not_rebuild_who_uses_it_privately(private):
    workspace = private()
    before = {name: model_bytes(workspace, name) for name in SOURCES}
    workspace.add(embed([ROWS[0]._replace(id="new")]))
    workspace.train()
    assert builds(workspace) == {"ann": 2, "bob": 1, "web": 1}
    assert [name for name in SOURCES if model_bytes(workspace, name) == before[name]] == ["bob", "web"]


@pytest.mark.parametrize("recipe", [None, Recipe(loss="bce", heads=1, epochs=1, expansion=0)], ids=["default", "inca"])
def test_the_default_recipe_and_open_inca_adapters_learn_privately(create, recipe):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    manifest = workspace.train(MIXED, recipe, privacy=GIVEN)
    assert len(manifest.groups) == 2 and builds(workspace) == {"web": 1}
    assert workspace.config.the_recipe().adapter == ("linear" if recipe is None else "inca")
    assert workspace.forget(request_for("bob")).privacy["removed"] == 1
    assert workspace.verify(full=True).ok


def test_worker_processes_train_private_groups_too(private):
    workspace = private(workers=2)
    assert builds(workspace) == dict.fromkeys(SOURCES, 1) and workspace.verify(full=True).ok
    assert len(workspace.predict(embed(ROWS[:3]))) == 3


def test_a_right_must_cover_private_neighbours_too_and_provisioning_releases_nothing(private):
    workspace = private()
    for sources, groups in ((("ann",), 0), (("ann", "bob"), 0), (SOURCES, 3)):
        consumer = "+".join(sources)
        workspace.consumers.grant(consumer, sources=sources)
        assert workspace.consumers.reach(consumer).groups == groups, (
            "each group has used all three sources, two of them privately"
        )
        workspace.consumers.provision(consumer)
        assert len(workspace.consumers.model(consumer).predict(embed(ROWS[:2]))) == 2
    assert builds(workspace) == dict.fromkeys(SOURCES, 1)
    workspace.forget(request_for("ann"))
    assert removed(workspace) == {"ann": 0, "bob": 1, "web": 1} and workspace.verify(full=True).ok


def test_private_groups_never_go_to_a_cluster(private):
    """Which may repeat a call that it gave up for lost; there is no cluster here that could be asked."""
    workspace = private()
    wanted = wanted_groups(workspace.context.store, workspace.config, workspace.context.numerics).values()
    tasks = tasks_for(workspace.context.store, workspace.config, wanted, lambda: str(scratch_file(workspace.root)))
    nowhere = RayExecutor(cluster=None, numerics={})
    assert sorted(result.name for result in nowhere.run(tasks)) == sorted(SOURCES)


def test_two_trainings_on_the_same_samples_are_not_alike(private):
    one, other = private(), private(name="other")
    assert all(model_bytes(one, name) != model_bytes(other, name) for name in SOURCES)
    assert one.status()["model_digest"] != other.status()["model_digest"]


def test_a_shard_that_is_gone_leaves_its_releases_and_not_its_name(private):
    workspace = private()
    workspace.forget(ForgetRequest(sources=("bob",)))
    text = json.dumps(charges(workspace).to_json())
    assert "bob" not in text and sum(name.startswith(GONE) for name in builds(workspace)) == 1
    assert removed(workspace) == dict.fromkeys(builds(workspace), 0) | {"ann": 8, "web": 8}
    workspace.close()
    assert not any(b"bob" in raw for name, raw in all_bytes(workspace.root).items() if "catalog" in name)


def test_a_name_that_only_looks_gone_leaves_with_its_shard(private):
    mechanism = private().config.the_privacy().mechanism
    entered = Charges().begun({"gone:fishing": ("ann",)}, mechanism)
    left = entered.present({"ann"})
    assert "fishing" in json.dumps(entered.to_json()) and "fishing" not in json.dumps(left.to_json())
    assert left.present({"ann"}) == left, "what is gone keeps its new name"


def test_when_everything_was_forgotten_there_is_nothing_to_refuse(private):
    workspace = private()
    workspace.forget(ForgetRequest(sources=SOURCES))
    assert workspace.train().groups == {}


def test_without_neighbours_left_a_group_is_exact_again(private):
    workspace = private(edges(private=("ab",)), GIVEN)
    private = model_bytes(workspace, "ann")
    certificate = workspace.forget(ForgetRequest(sources=("bob",)))
    assert certificate.privacy is None and certificate.guarantee.startswith("exact")
    assert model_bytes(workspace, "ann") != private
    assert workspace.verify(full=True).checks[-1].detail == "2 groups, equal bytes"


# What is said


def test_no_path_says_exact_while_a_private_edge_is_served(private):
    workspace = private(MIXED, GIVEN)
    said = [workspace.forget(request_for(source)) for source in SOURCES]
    said += [workspace.forget(request_for("ann", skip=1), instant=True), workspace.repair()]
    for certificate in said:
        assert "exact" not in certificate.guarantee
        assert "(alpha, beta)" in certificate.guarantee and "by formula/rdp" in said[1].guarantee
        assert certificate.privacy["groups"] == 1 and "vacuous" in certificate.guarantee
        check_certificate(
            Certificate.load(certificate_path(workspace.root, certificate.number)), workspace.context.keys.public
        )
    assert said[0].privacy["removed"] == 0, "nobody uses ann's samples privately"
    assert said[1].privacy["removed"] == 1
    assert said[2].privacy["removed"] == 0, "web's own samples were forgotten, so its adapters are new"


def test_verify_checks_files_of_private_groups_only_and_says_so(private):
    workspace = private(MIXED, GIVEN)
    released = builds(workspace)
    found = workspace.verify(full=True)
    assert found.ok and "1 with private edges, whose files alone were checked" in found.checks[-1].detail
    assert found.checks[-1].detail.startswith("1 groups, equal bytes")
    assert builds(workspace) == released, "to verify is not to release"
    path = group_path(workspace.root, "web")
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert not workspace.verify().ok


def test_status_says_how_many_requests_each_shard_has_left(private):
    workspace = private()
    fresh = workspace.status()["privacy"]["shards"]
    assert {shard: each["left"] for shard, each in fresh.items()} == {s: each["of"] for s, each in fresh.items()}
    count = fresh["ann"]["of"]
    assert count >= 2
    workspace.forget(request_for("ann", 2))
    left = workspace.status()["privacy"]["shards"]["ann"]
    assert left["left"] < left["of"] <= count


def test_a_workspace_without_private_edges_says_nothing_of_them(trained):
    workspace = trained(CLIQUE, recipe=LINEAR)
    assert workspace.status()["privacy"] is None
    assert "privacy" not in workspace.config.to_json() and "privacy" not in workspace.plan(request_for("ann")).to_json()
    certificate = workspace.forget(request_for("ann"))
    assert certificate.guarantee.startswith("exact") and "privacy" not in certificate.to_json()


# What stays exact: groups without private edges, shards, held-out samples and prototypes, whatever happened


def exact_files(workspace):
    """The promised files but for the adapters of groups with private edges, and the manifest that names those."""
    graph = workspace.views.graph().graph
    private = {group_path(workspace.root, group.name) for group in graph.groups() if group.private}
    folders = [path for name in ("shards", "models", "heldout") for path in (workspace.root / name).rglob("*")]
    files = [path for path in folders if path.is_file() and path not in private]
    files.append(workspace.root / "prototypes.safetensors")
    return {str(path.relative_to(workspace.root)): path.read_bytes() for path in files}


PAIRS = [(i, j) for i in SOURCES for j in SOURCES if i != j]


@settings(max_examples=15)
@given(
    kinds=st.tuples(*[st.sampled_from(["none", "plain", "private"])] * len(PAIRS)),
    gone=st.lists(st.lists(st.sampled_from([row.id for row in ROWS]), min_size=1, max_size=4), min_size=1, max_size=3),
    instant=st.booleans(),
)
def test_in_mixed_graphs_all_else_equals_a_workspace_that_never_saw(kinds, gone, instant):
    import tempfile
    from pathlib import Path

    chosen = {kind: frozenset(p for p, k in zip(PAIRS, kinds, strict=True) if k == kind) for kind in set(kinds)}
    private = chosen.get("private", frozenset())
    graph = ShardGraph(SOURCES, private | chosen.get("plain", frozenset()), private, 2.0 if private else float("inf"))
    terms = GIVEN if private else None
    left = {name for names in gone for name in names}
    with tempfile.TemporaryDirectory() as folder:
        kept = [row for row in ROWS if row.id not in left]
        found = []
        for name, rows in (("learned", ROWS), ("never", kept)):
            with Workspace.create(Path(folder) / name, seed=0, classes=LABELS, workers=1) as workspace:
                workspace.add(embed(rows))
                workspace.train(OwnGraph(graph), LINEAR, privacy=terms)
                if name == "learned":
                    for names in gone:
                        if known := inventory.known_ids(workspace.context.catalogue, names):
                            workspace.forget(ForgetRequest(samples=tuple(known)), instant=instant)
                    workspace.repair()
                found.append(exact_files(workspace))
                assert workspace.verify(full=True).ok
        assert found[0] == found[1]


# Interruptions


@pytest.mark.parametrize("part", range(4))
def test_an_interrupted_training_is_charged_before_it_could_see_anything(create, part):
    """Interrupted at lines spread over the command: what is there was entered, what is repeated is entered again."""
    for i, line in enumerate(range(40 + 90 * part, 1600, 360)):
        workspace = create(f"ws{i}", classes=LABELS)
        workspace.add(embed(ROWS))
        stopped = interrupted(line, lambda ws=workspace: ws.train(CLIQUE, LINEAR, privacy=TERMS))
        begun = builds(workspace)
        there = [name for name in SOURCES if group_path(workspace.root, name).exists()]
        assert set(there) <= set(begun)
        workspace.close()
        with Workspace(workspace.root, workers=1) as again:
            again.train(CLIQUE, LINEAR, privacy=TERMS)
            assert set(inventory.built_groups(again.context.catalogue)) == set(SOURCES)
            done = {name for name in there if begun.get(name)}
            assert all(builds(again)[name] >= 1 for name in SOURCES)
            if stopped and begun:
                lost = set(SOURCES) - done
                assert all(builds(again)[name] == begun[name] + 1 for name in lost), "trained anew, and charged anew"


@pytest.mark.parametrize("line", [2, 40, 120])
def test_a_training_that_dies_among_its_noisy_sums_was_charged(create, line):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    loop = ("learn/private/training/private_group.py",)
    assert interrupted(line, lambda: workspace.train(CLIQUE, LINEAR, privacy=TERMS), rooms=loop)
    workspace.close()
    with Workspace(workspace.root, workers=1) as again:
        assert builds(again) == dict.fromkeys(SOURCES, 1)
        again.train()
        assert sorted(builds(again).values())[-1] == 2 and again.verify(full=True).ok


@pytest.mark.parametrize("line", [2, 60])
def test_old_adapters_keep_their_charges_until_new_ones_are_there(private, line):
    workspace = private()
    workspace.forget(request_for("ann", 2))
    workspace.add(embed([ROWS[2]._replace(id="new", source="bob")]))
    old = model_bytes(workspace, "bob")
    assert interrupted(line, workspace.train, rooms=("learn/private/training/private_group.py",))
    workspace.close()
    with Workspace(workspace.root, workers=1) as again:
        assert model_bytes(again, "bob") == old and removed(again)["bob"] == 2 and builds(again)["bob"] == 2
        again.train()
        assert model_bytes(again, "bob") != old and removed(again) == {"ann": 0, "bob": 0, "web": 2}
        assert builds(again)["bob"] == 3


@pytest.mark.parametrize("part", range(4))
def test_an_interrupted_forget_charges_exactly_once(private, part):
    base = private()
    base.forget(request_for("ann"))
    base.close()
    for i, line in enumerate(range(30 + 110 * part, 2400, 440)):
        import shutil

        root = base.root.parent / f"copy{i}"
        shutil.copytree(base.root, root)
        with Workspace(root, workers=1) as workspace:
            interrupted(line, lambda ws=workspace: ws.forget(request_for("ann", 2, skip=1)))
        with Workspace(root, workers=1) as workspace:
            workspace.resume()
            workspace.forget(request_for("ann", 2, skip=1))
            assert removed(workspace) == {"ann": 0, "bob": 3, "web": 3}, f"line {line}"
            assert builds(workspace)["ann"] >= 3 and builds(workspace)["bob"] == builds(workspace)["web"] == 1
            assert workspace.certificates.last() == 2 and workspace.certificates.load(2).privacy["removed"] == 3
            assert workspace.verify().ok
        shutil.rmtree(root)


# What is refused, and leaves everything as it was


@pytest.mark.parametrize(
    ("topology", "terms", "recipe", "error", "words"),
    [
        (CLIQUE, lambda: replace(TERMS, epsilon=0.0), LINEAR, ConfigError, "epsilon must be a number > 0, got 0"),
        (CLIQUE, lambda: replace(TERMS, epsilon=-1.0), LINEAR, ConfigError, "epsilon must be a number > 0"),
        (CLIQUE, lambda: replace(TERMS, delta=0.1), LINEAR, InputError, r"delta must be below 1/n = 0.0417 for n = 24"),
        (CLIQUE, lambda: replace(TERMS, delta=0.0), LINEAR, ConfigError, "delta must be in"),
        (CLIQUE, lambda: replace(TERMS, budget=Budget(10.0, 1.5)), LINEAR, ConfigError, r"beta must be in \(0, 1\]"),
        (CLIQUE, lambda: replace(TERMS, budget=Budget(0.1, 1e-3)), LINEAR, WorkspaceError, "the budget .* is spent"),
        (CLIQUE, lambda: TERMS, replace(LINEAR, loss="ce"), ConfigError, "need the loss 'bce'"),
        (CLIQUE, lambda: GIVEN, LINEAR, InputError, "empty neighbourhood"),
        (Bilevel(2, 1), lambda: TERMS, LINEAR, InputError, "empty neighbourhood"),
        (MIXED, lambda: None, LINEAR, ConfigError, "the graph has private edges"),
        (MIXED, lambda: replace(GIVEN, epsilon=1.0), LINEAR, ConfigError, "have epsilon 2, got 1"),
        (CLIQUE, lambda: replace(TERMS, recipe=replace(STEPS, noise=0.1)), LINEAR, ConfigError, "noise 0.1 gives"),
    ],
)
def test_a_first_training_that_cannot_keep_its_promise_is_refused(create, topology, terms, recipe, error, words):
    workspace = create(classes=LABELS)
    workspace.add(embed(ROWS))
    with pytest.raises(error, match=words):
        workspace.train(topology, recipe, privacy=terms())
    assert not workspace.config.trained and charges(workspace) == Charges()
    workspace.train(CLIQUE, LINEAR)
    assert workspace.verify(full=True).ok


def test_an_empty_neighbour_is_no_neighbour(create):
    workspace = create(classes=LABELS)
    workspace.add(embed([row for row in ROWS if row.source != "bob"]))
    with pytest.raises(InputError, match="an empty neighbourhood"):
        workspace.train(edges(private=("ab",)), LINEAR, privacy=GIVEN)


def test_other_terms_are_refused_later_and_the_budget_may_change(private):
    workspace = private()
    for other in (
        replace(TERMS, epsilon=1.0),
        replace(TERMS, delta=1e-9),
        GIVEN,
        replace(TERMS, recipe=PrivateRecipe()),
    ):
        with pytest.raises(ConfigError, match="the first training fixed"):
            workspace.train(privacy=other)
    workspace.forget(request_for("ann", 2))
    with pytest.raises(ConfigError, match="too small"):
        workspace.train(budget=Budget(1.0, 1.0))
    once, models = charges(workspace), [model_bytes(workspace, name) for name in SOURCES]
    workspace.train(budget=Budget(50.0, 1.0), privacy=TERMS)
    assert workspace.config.the_privacy().budget.alpha == 50
    assert charges(workspace) == once and [model_bytes(workspace, name) for name in SOURCES] == models
    assert workspace.verify(full=True).ok


def test_a_budget_without_private_edges_is_refused(trained):
    workspace = trained(CLIQUE, recipe=LINEAR)
    with pytest.raises(ConfigError, match="all edges as plain"):
        workspace.train(budget=PAPER)
    with pytest.raises(ConfigError, match="all edges as plain"):
        workspace.train(privacy=TERMS)


def test_a_training_that_spends_the_budget_is_refused_and_forgetting_never_is(private):
    workspace = private(terms=replace(TERMS, budget=Budget(2.2, 1.0)))
    before = charges(workspace)
    with pytest.raises(WorkspaceError, match=r"the budget .* is spent"):
        workspace.train(rebuild=True)
    workspace.add(embed([ROWS[0]._replace(id="new"), ROWS[2]._replace(id="newer")]))
    with pytest.raises(WorkspaceError, match="is spent"):
        workspace.train()
    assert charges(workspace) == before and workspace.status()["waiting"] == 2
    for skip in range(3):
        certificate = workspace.forget(request_for("ann", skip=skip))
        assert certificate.privacy["alpha"] <= 2.2
    assert workspace.status()["privacy"]["shards"]["bob"]["left"] == 0, "every request trains anew what used it"
    workspace.train(budget=PAPER)
    assert workspace.status()["waiting"] == 0


def test_plain_groups_that_get_somebody_to_read_privately_are_counted_before_they_are_trained(private):
    rows = [row for row in ROWS if row.source != "bob"]
    workspace = private(edges(private=("wa", "ab", "wb")), GIVEN, rows)
    assert builds(workspace) == {"web": 1}, "ann has nobody to read yet"
    workspace.train(budget=Budget(1.0, 1.0))
    workspace.add(embed([row for row in ROWS if row.source == "bob"]))
    with pytest.raises(WorkspaceError, match="is spent"):
        workspace.train()
    assert builds(workspace) == {"web": 1}


def test_a_damaged_neighbour_is_found_before_anything_is_released(private):
    workspace = private()
    path = workspace.context.store.path("shard:bob")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedFile, match="shard:bob"):
        workspace.forget(request_for("ann"))
    assert builds(workspace) == dict.fromkeys(SOURCES, 1)


def test_a_certificate_tells_what_all_sets_of_groups_lose_together(private):
    workspace = private(edges(private=("ab", "bw", "wa")), GIVEN)
    gone = tuple(request_for(source).samples[0] for source in SOURCES)
    privacy = workspace.forget(ForgetRequest(samples=gone[:1])).privacy
    assert privacy["removed"] == privacy["together"]["removed"] == 1
    stay = private(edges(private=("ab", "wb")), GIVEN, name="stay")
    assert "all sets together" not in stay.forget(request_for("bob", 2)).guarantee


def test_the_classifier_in_memory_keeps_no_ledger_and_refuses():
    with pytest.raises(ConfigError, match="need a Workspace"):
        SafeClassifier(topology=MIXED).fit(*_arrays())


def _arrays():
    samples = embed(ROWS, most_tokens=1)
    return samples.tokens, samples.labels


def test_graphs_with_nonsense_weights_are_refused():
    for bad in ([["a", "b", 1.0], ["b", "a", 2.0]], [["a", "b", "x"]], [["a", "b", True]], [["a", "b", 0]]):
        with pytest.raises(GraphError, match="epsilon"):
            ShardGraph.from_json({"shards": ["a", "b"], "edges": bad})
    with pytest.raises(GraphError, match="plain or private"):
        ShardGraph.from_json({"shards": ["a", "b"], "edges": [["a", "b"], ["a", "b", 1.0]]})
