"""Every rival forgets exactly, and costs what the graph says."""

import pytest

from experiments.cache import Data, demo
from experiments.legonet import Lego
from experiments.rivals import RIVALS, fit
from experiments.slices import Sliced
from shardgraph.graph import Bilevel
from shardgraph.learn.recipe import Recipe
from tests.experiments import made_up

RECIPE = Recipe(epochs=2, expansion=2)
LINEAR = Recipe(adapter="linear", epochs=2, expansion=2)


@pytest.fixture(scope="module")
def data() -> Data:
    whole = demo()
    return Data(whole.name, whole.backbone, whole.train.take(range(300)), whole.test.take(range(100)))


def bytes_of(fitted):
    return {name: a.to_bytes() for name, a in fitted.adapters.items()}, fitted.prototypes.to_bytes()


@pytest.mark.parametrize("recipe", [RECIPE, LINEAR], ids=["inca", "linear"])
@pytest.mark.parametrize("name", RIVALS)
def test_what_learned_and_forgot_equals_what_never_saw(name, recipe, data):
    rival = RIVALS[name]
    shape = rival.shape((3, 2))
    topology = Bilevel(*shape) if shape else None  # by hash: a place does not depend on who else is there
    gone = [data.train.ids[i] for i in (0, 7, 8)]
    kept = data.train.take([i for i in range(300) if i not in (0, 7, 8)])
    learned = fit(data.train, topology, rival.recipe(recipe), 5)
    forgot, _ = learned.forget(gone)
    assert bytes_of(forgot) == bytes_of(fit(kept, topology, rival.recipe(recipe), 5))
    assert bytes_of(forgot) != bytes_of(learned)


@pytest.mark.parametrize("name", ["No sharding", "SISA", "SAFE", "Ours"])
def test_a_forget_reads_as_many_samples_as_predicted(name, data):
    fitted = RIVALS[name].fit(data.train, (3, 2), RECIPE, 5)
    for sample in data.train.ids[:6]:
        _, read = fitted.forget([sample])
        assert read == fitted.cost(sample)


def test_the_only_sample_of_its_class_in_a_group_costs_what_the_graph_says():
    few = made_up.samples(4, classes=2)
    fitted = RIVALS["SISA"].fit(few, (2, 1), RECIPE, 5)
    assert [len(set(shard.labels)) for shard in fitted.shards.values()] == [2, 2]
    for sample in few.ids:
        assert fitted.forget([sample])[1] == fitted.cost(sample)


def test_prototypes_alone_read_nothing_again(data):
    fitted = RIVALS["Second order"].fit(data.train, (3, 2), RECIPE, 5)
    assert fitted.forget([data.train.ids[0]])[1] == fitted.cost() == 0


@pytest.mark.parametrize("name", RIVALS)
def test_every_rival_predicts_better_than_chance(name, data):
    fitted = RIVALS[name].fit(data.train, (2, 2), Recipe(epochs=10, lr=0.05, expansion=2), 5)
    right = [a == b for a, b in zip(fitted.predict(data.test), data.test.labels, strict=True)]
    assert sum(right) > 20  # of 100, where chance is 10


def test_held_out_samples_come_from_the_training_split_alone():
    whole = demo()
    part = whole.held_out()
    assert set(part.train.ids) | set(part.test.ids) == set(whole.train.ids)
    assert not set(part.train.ids) & set(part.test.ids)


@pytest.mark.parametrize("recipe", [RECIPE, LINEAR], ids=["inca", "linear"])
def test_slices_forget_exactly_and_cost_what_their_stages_read(recipe, data):
    gone = [data.train.ids[i] for i in (0, 7, 8)]
    kept = data.train.take([i for i in range(300) if i not in (0, 7, 8)])
    learned = Sliced.fit(data.train, 3, 4, recipe, 5)
    forgot, _ = learned.forget(gone)
    fresh = Sliced.fit(kept, 3, 4, recipe, 5)
    assert {n: [s.to_bytes() for s in own] for n, own in forgot.stages.items()} == {
        n: [s.to_bytes() for s in own] for n, own in fresh.stages.items()
    }
    assert forgot.prototypes.to_bytes() == fresh.prototypes.to_bytes()
    assert learned.storage() > 3 * sum(len(own[-1].to_bytes()) for own in learned.stages.values())


def test_a_sample_of_the_last_slice_costs_one_stage_and_one_of_the_first_all(data):
    learned = Sliced.fit(data.train, 2, 3, RECIPE, 5)
    own = next(iter(learned.shards.values()))
    whole = sum(map(len, own))
    assert learned.forget([own[-1].ids[0]])[1] == whole - 1
    assert learned.forget([own[0].ids[0]])[1] > 1.5 * whole


@pytest.mark.parametrize("recipe", [RECIPE, LINEAR], ids=["inca", "linear"])
def test_legonet_forgets_exactly(recipe, data):
    gone = [data.train.ids[i] for i in (0, 7, 8)]
    kept = data.train.take([i for i in range(300) if i not in (0, 7, 8)])
    forgot, read = Lego.fit(data.train, 6, 2, recipe, 5).forget(gone)
    assert bytes_of(forgot) == bytes_of(Lego.fit(kept, 6, 2, recipe, 5))
    assert 3 <= read < 300


def test_slices_and_legonet_predict_better_than_chance(data):
    recipe = Recipe(epochs=10, lr=0.05)
    for fitted in (Sliced.fit(data.train, 2, 2, recipe, 5), Lego.fit(data.train, 4, 2, recipe, 5)):
        right = [a == b for a, b in zip(fitted.predict(data.test), data.test.labels, strict=True)]
        assert sum(right) > 20
