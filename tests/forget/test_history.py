"""The promise: what is on disk is a function of what is retained, whatever order of events led there."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardgraph.forget.classifier import SafeClassifier
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BilevelAcross, BySource
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import pack_samples
from shardgraph.storage.tables import inventory
from tests.strategies import (
    DIM,
    LABELS,
    QUICK,
    SOURCES,
    Row,
    embed,
    interrupted,
    many,
    never_saw,
    promised_files,
    recipes,
    rows,
    topologies,
)

# In memory, through the classifier: many examples


def fitted(drawn, topology, recipe):
    tokens = np.stack([embed([row], most_tokens=1).tokens[0] for row in drawn])
    X = np.stack([tokens, np.roll(tokens, 1, axis=1)], axis=1)  # [n, 2, d]
    model = SafeClassifier(topology=topology, recipe=recipe, classes=LABELS, seed=7)
    return model.fit(X, [r.label for r in drawn], ids=[r.id for r in drawn], sources=[r.source for r in drawn])


def parts(model):
    """Everything that a classifier holds of what it learned, as bytes."""
    shards = {name: pack_samples(samples) for name, samples in model.learned_.shards.items()}
    adapters = {name: adapters.to_bytes() for name, adapters in model.learned_.adapters.items()}
    return shards, adapters, model.learned_.prototypes.to_bytes(), model.digest_


@settings(max_examples=120)
@given(drawn=rows(most=14, least=2), topology=topologies(), recipe=recipes(), data=st.data())
def test_a_classifier_that_forgot_equals_one_that_never_saw(drawn, topology, recipe, data):
    model, left = fitted(drawn, topology, recipe), list(drawn)
    for _ in range(data.draw(st.integers(1, 3), label="requests")):
        if len(left) > 1:
            leaving = data.draw(st.lists(st.sampled_from(left), min_size=1, max_size=len(left) - 1, unique=True))
            model.forget([row.id for row in leaving])
            left = [row for row in left if row not in leaving]
    assert parts(model) == parts(fitted(left, topology, recipe))


@given(drawn=rows(most=6), topology=topologies(), recipe=recipes())
def test_a_classifier_that_forgot_everything_holds_nothing(drawn, topology, recipe):
    model = fitted(drawn, topology, recipe).forget([row.id for row in drawn])
    shards, adapters, prototypes, _ = parts(model)
    nothing = total([], second_order=recipe.second_order, expansion=recipe.expansion).to_bytes()
    assert (shards, adapters, prototypes) == ({}, {}, nothing)
    assert model.learned_.model.classes == ()


# On disk, through the workspace: any sequence of events, interruptions among them


class World:
    """A workspace with a history, and what it should retain."""

    def __init__(self, root: Path, topology, recipe, classes, workers=1):
        self.root, self.topology, self.recipe = root, topology, recipe
        self.workspace = Workspace.create(root, seed=3, classes=classes, workers=workers)
        self.here: dict[str, Row] = {}
        self.versions: dict[str, int] = {}

    def add(self, arriving):
        """Samples that come, or come back with other contents."""
        new = [row._replace(version=self.versions.get(row.id, -1) + 1) for row in arriving if row.id not in self.here]
        self.versions |= {row.id: row.version for row in new}
        self.pending = {row.id: row for row in new}
        self.workspace.add(embed(new), allow_return=True)

    def train(self):
        if any(row.split == "train" for row in self.here.values()) or self.workspace.config.trained:
            self.workspace.train(self.topology, self.recipe)

    def selectors(self):
        """All that a request could name now."""
        columns = {"samples": "id", "sources": "source", "subjects": "subject", "labels": "label"}
        found = [(kind, getattr(row, column)) for kind, column in columns.items() for row in self.here.values()]
        units = {row.unit for row in inventory.find_by_id(self.workspace.context.catalogue, list(self.here))}
        found += [("shards", unit.removeprefix("shard:")) for unit in units if unit.startswith("shard:")]
        return sorted({(kind, name) for kind, name in found if name})

    def forget(self, chosen, instant):
        named = {}
        for kind, name in chosen:
            named.setdefault(kind, []).append(name)
        request = ForgetRequest(**{kind: tuple(names) for kind, names in named.items()})
        self.workspace.forget(request, instant=instant)

    def look(self):
        """What is here is what the catalogue says: an interrupted event happened or did not."""
        known = {**self.here, **getattr(self, "pending", {})}
        self.here = {i: known[i] for i in inventory.known_ids(self.workspace.context.catalogue, known)}

    def reopen(self):
        self.workspace.close()
        self.workspace = Workspace(self.root, workers=1)
        self.workspace.resume()


def happen(world, event, data):
    """One event drawn at random, with a Ctrl-C in the middle of some."""
    if event == "add":
        arriving = data.draw(rows(most=5), label="arriving")
        act = lambda: world.add(arriving)  # noqa: E731
    elif event == "forget":
        if not (named := world.selectors()):
            return
        chosen = data.draw(st.lists(st.sampled_from(named), min_size=1, max_size=2), label="leaving")
        instant = data.draw(st.booleans(), label="instant")
        act = lambda: world.forget(chosen, instant)  # noqa: E731
    else:
        act = {"train": world.train, "repair": world.workspace.repair, "reopen": world.reopen}[event]
    after = data.draw(st.one_of(st.none(), st.none(), st.integers(1, 2500)), label="Ctrl-C before line")
    if after is None:
        act()
    elif interrupted(after, act):
        world.reopen()
    world.look()


def check_promise(world, folder):
    """Equal bytes with a workspace that only ever saw what is retained; nothing served that should not be."""
    world.train()
    world.workspace.repair()
    found = promised_files(world.root)
    if any(row.split == "train" for row in world.here.values()):
        assert found == never_saw(world.workspace, world.here.values(), folder / "never")
    else:
        assert [name for name in found if name.startswith(("shards", "models"))] == []
        nothing = total([], second_order=world.recipe.second_order, expansion=world.recipe.expansion).to_bytes()
        assert found.get("prototypes.safetensors", nothing) == nothing
    verification = world.workspace.verify(full=True)
    assert verification.ok, verification
    assert not list((world.root / "scratch").iterdir())


EVENTS = st.lists(st.sampled_from(("add", "train", "train", "forget", "forget", "repair", "reopen")), max_size=7)


@settings(max_examples=90)
@given(first=rows(most=10, least=3), events=EVENTS, topology=topologies(), recipe=recipes(), data=st.data())
def test_a_workspace_with_any_history_equals_one_that_only_saw_what_is_retained(first, events, topology, recipe, data):
    declared = getattr(topology, "fine", 1) > 1 or data.draw(st.booleans(), label="classes declared")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        world = World(Path(folder) / "ws", topology, recipe, LABELS if declared else None)
        try:
            world.add(first)
            world.look()
            for event in ("train", *events):  # what comes later is the interesting part
                happen(world, event, data)
            check_promise(world, Path(folder))
        finally:
            world.workspace.close()


# Chosen histories, so that they are walked on every day


@pytest.mark.parametrize("instant", [False, True], ids=["at once", "instant, then repair"])
@pytest.mark.parametrize("kind", ["samples", "sources", "subjects", "labels", "shards"])
def test_forgetting_by_each_kind_of_name(create, fast_path, kind, instant):
    world = World(fast_path / "ws", BilevelAcross(2, 2), QUICK, LABELS)
    world.add([*many(24), *many(6, split="test")])
    world.look()
    world.train()
    world.forget([next(named for named in world.selectors() if named[0] == kind)], instant)
    world.look()
    assert len(world.here) < 30
    check_promise(world, fast_path)


def test_the_last_of_a_class_a_source_and_a_group_leave(create, fast_path):
    world = World(fast_path / "ws", BySource(safe=("web",)), QUICK, None)
    world.add([*many(12), Row("only eel", "eel", "cid"), Row("last of dan", "ant", "dan")])
    world.look()
    world.train()
    assert world.workspace.config.classes == ("ant", "bee", "cat", "dog", "eel")
    world.forget([("samples", "only eel"), ("samples", "last of dan")], instant=False)
    world.look()
    assert "eel" not in world.workspace.model().classes
    check_promise(world, fast_path)


def test_a_group_that_loses_its_first_shard_takes_another_name_and_the_right_bytes(create, fast_path):
    """In these topologies a group is named after the shards that are there."""
    for i, topology in enumerate((BilevelAcross(1, 1), BySource(safe=("ann", "bob")))):
        world = World(fast_path / f"ws{i}", topology, QUICK, LABELS)
        world.add(many(18))
        world.look()
        world.train()
        world.forget([("sources", "ann")], instant=True)
        world.add([Row(f"new{k}", LABELS[k % 4], SOURCES[k % 3]) for k in range(6)])
        world.look()
        check_promise(world, fast_path / str(i))


def test_everything_forgotten_and_others_came(create, fast_path):
    world = World(fast_path / "ws", BilevelAcross(2, 1), QUICK, LABELS)
    world.add(many(8))
    world.look()
    world.train()
    world.forget([("labels", label) for label in LABELS], instant=False)
    world.look()
    assert world.here == {}
    check_promise(world, fast_path)
    world.add([Row(f"new{k}", LABELS[k % 2], "web") for k in range(6)])
    world.look()
    check_promise(world, fast_path)


def test_features_of_another_width_of_float_leave_no_trace(create, fast_path):
    """A float64 feature must not widen the file of those that stay."""
    workspace = create(classes=LABELS)
    wide = embed([Row("wide", "ant")])
    object.__setattr__(wide, "features", wide.features.astype(np.float64))
    workspace.add(wide)
    workspace.add(embed(many(8)))
    workspace.train(BySource(), QUICK)
    workspace.forget(ForgetRequest(samples=("wide",)))
    assert promised_files(workspace.root) == never_saw(workspace, many(8), fast_path / "never")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "recipe",
    [Recipe(projection="random", heads=2, epochs=2, batch=4), Recipe(adapter="linear", loss="bce", epochs=2, batch=4)],
    ids=["inca", "linear"],
)
def test_workers_change_no_byte(create, fast_path, workers, recipe):
    """Serial and in processes, one and two of them, through add, train, forget and repair."""
    many_shards = BilevelAcross(2, 2)
    world = World(fast_path / "ws", many_shards, recipe, LABELS, workers=workers)
    world.add(many(24))
    world.look()
    world.train()
    world.forget([("sources", "bob")], instant=False)
    world.forget([("samples", many(24)[0].id)], instant=True)
    world.look()
    check_promise(world, fast_path)


def test_the_classifier_in_memory_and_the_workspace_on_disk_have_one_digest(create):
    drawn, topology = many(20), BilevelAcross(2, 2)
    samples = embed(drawn, most_tokens=1)
    model = SafeClassifier(topology=topology, recipe=QUICK, classes=LABELS, seed=5)
    model.fit(samples.features, samples.labels, ids=samples.ids, sources=samples.sources)
    workspace = create(seed=5, classes=LABELS)
    object.__setattr__(samples, "tokens", samples.features.astype(np.float16))
    workspace.add(samples)
    assert workspace.train(topology, QUICK).model_digest == model.digest_
    assert samples.tokens.shape == (20, DIM)
    model.forget(samples.ids[:3])
    workspace.forget(ForgetRequest(samples=samples.ids[:3]))
    assert workspace.model().digest == model.digest_
