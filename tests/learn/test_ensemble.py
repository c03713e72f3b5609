"""The model against the paper's formulas, adapter by adapter; packed adapters against the forward pass of training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments import masked
from shardgraph.errors import WorkspaceError
from shardgraph.learn import inca
from shardgraph.learn.ensemble import CHUNK, SAFE_EXPONENT, Model, PackedAdapters
from shardgraph.learn.group import train_group
from shardgraph.learn.inca import frozen_attention
from shardgraph.learn.prototypes import Prototypes, expand, total
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import concatenate
from tests.learn.test_discriminant import naive_shrinkage
from tests.strategies import embed, many

RECIPES = [
    Recipe(method="safe", name="inca", projection="random", heads=2, epochs=3, batch=8, lr=0.05),
    Recipe(method="safe", name="orthogonal", projection="orthogonal", heads=2, epochs=3, batch=8, lr=0.05, loss="bce"),
    Recipe(method="safe", name="linear", adapter="linear", epochs=3, batch=8, lr=0.05),
    Recipe(name="second", heads=2, epochs=3, batch=8, lr=0.05, expansion=0),
    Recipe(name="expanded", heads=2, epochs=3, batch=8, lr=0.05, expansion=2),
    Recipe(method="safe", name="no prototypes", heads=2, epochs=3, batch=8, lr=0.05, prototypes=False),
]
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)


def groups():
    """Three groups of unequal size; cats are in all, dogs in one."""
    labels = {"a": ("ant", "bee", "cat"), "b": ("bee", "cat"), "c": ("cat", "dog", "ant")}
    parts = {}
    for (name, classes), count in zip(labels.items(), (9, 30, 61), strict=True):
        rows = [row._replace(id=f"{name}{row.id}") for row in many(count, labels=classes)]
        parts[name] = embed(rows, dim=8, most_tokens=3)
    return parts


def assembled(recipe):
    parts = groups()
    adapters = {n: train_group(n, s, tuple(sorted(set(s.labels))), recipe, 0) for n, s in parts.items()}
    sums = total(parts.values(), second_order=recipe.second_order, expansion=recipe.expansion)
    return parts, adapters, Model.assemble(adapters, sums, recipe, 0)


def naive_scores(parts, adapters, recipe, sample):
    """SAFE(z) for one sample in float64: mean of logits per class, mixed with the cosine to class means."""
    logits = {}
    for group in adapters.values():
        if recipe.adapter == "inca":
            attention = frozen_attention(8, recipe, 0, torch.float64)
            keys = inca.project(sample, attention, torch.float64)
            first, second = (torch.from_numpy(x.copy()).double() for x in (group.first, group.second))
            y = masked.logits(first, second, keys, attention)[0].tolist()
        else:
            x = sample.features[0].astype(np.float64)
            normed = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
            y = (group.first.astype(np.float64) @ normed + group.second).tolist()
        for label, value in zip(group.classes, y, strict=True):
            logits.setdefault(label, []).append(value)
    adapters_part = np.array([np.mean(logits[label]) for label in sorted(logits)])
    everyone = concatenate(parts.values())
    expansion = recipe.expansion if recipe.second_order else 0
    unit, z = unit_vectors(everyone, expansion), unit_vectors(sample, expansion)[0]
    members = [unit[[own == label for own in everyone.labels]] for label in sorted(logits)]
    if recipe.second_order:
        each = sum(group.samples for group in adapters.values()) / sum(len(g.classes) for g in adapters.values())
        weight, adapters_part = 0.7 + 0.3 * math.exp(-each / 100), standardised(adapters_part)
        answers = standardised(discriminant_scores(members, z, naive_shrinkage(members)))
    else:
        counts = [group.samples for group in adapters.values() for _ in group.classes]
        weight = math.exp(-np.mean(counts) / 100) if recipe.prototypes else 0.0
        means = [own.mean(axis=0) for own in members]
        answers = np.array([z @ mean / np.linalg.norm(mean) for mean in means])
    return (1 - weight) * adapters_part + weight * answers


def unit_vectors(samples, expansion):
    """What describes a sample: unit features, and as long a vector of what its tokens were expanded to."""
    x = samples.features / np.linalg.norm(samples.features, axis=1, keepdims=True).astype(np.float64)
    if not expansion:
        return x
    y = expand(samples, expansion)
    return np.concatenate([x, y / np.linalg.norm(y, axis=1, keepdims=True)], axis=1) / 2**0.5


def standardised(x):
    return (x - x.mean()) / x.std()


def discriminant_scores(members, z, shrinkage):
    """Pooled within-class covariance, shrunk to a sphere, and by it the angles to the class means."""
    means = [own.mean(axis=0) for own in members]
    centred = np.concatenate([own - mean for own, mean in zip(members, means, strict=True)])
    pooled = centred.T @ centred / (len(centred) - len(means))
    shrunk = (1 - shrinkage) * pooled + shrinkage * np.trace(pooled) / len(pooled) * np.eye(len(pooled))
    inverse = np.linalg.inv(shrunk)
    centre = np.concatenate(members).mean(axis=0)
    strengths = [(mean - centre) @ inverse @ (mean - centre) for mean in means]
    c = 0.4 * np.mean(strengths)
    said = [(z - centre) @ inverse @ (mean - centre) for mean in means]
    return np.array([(s + c) / math.sqrt(g + c) for s, g in zip(said, strengths, strict=True)])


@every_recipe
def test_one_pass_equals_the_formula_adapter_by_adapter(recipe):
    parts, adapters, model = assembled(recipe)
    asked = embed([row._replace(id=f"q{row.id}") for row in many(6)], dim=8, most_tokens=3)
    scores = model.scores(asked)
    assert model.classes == ("ant", "bee", "cat", "dog")
    for i in range(len(asked)):
        expected = naive_scores(parts, adapters, recipe, asked.take([i]))
        # float32 against float64; prototypes are rounded to 2^-16, which an inverse covariance makes ten times larger
        np.testing.assert_allclose(scores[i], expected, rtol=1e-3, atol=1e-3)


@every_recipe
def test_predictions_are_the_highest_scores_also_beyond_one_chunk(recipe):
    _, _, model = assembled(recipe)
    asked = embed(many(CHUNK + 7), dim=8, most_tokens=3)
    scores = model.scores(asked)
    assert scores.shape == (CHUNK + 7, 4)
    assert model.predict(asked) == [model.classes[i] for i in scores.argmax(axis=1)]
    assert len(set(model.predict(asked))) == 4
    assert model.scores(asked.take([])).shape == (0, 4)


@every_recipe
def test_a_class_without_samples_is_not_predicted(recipe):
    parts, _, _ = assembled(recipe)
    left = {n: s.take([i for i, la in enumerate(s.labels) if la != "dog"]) for n, s in parts.items()}
    adapters = {n: train_group(n, s, tuple(sorted(set(s.labels))), recipe, 0) for n, s in left.items()}
    sums = total(left.values(), second_order=recipe.second_order)
    model = Model.assemble(adapters, sums, recipe, 0)
    dogs = concatenate(parts.values())
    dogs = dogs.take([i for i, label in enumerate(dogs.labels) if label == "dog"])
    assert model.classes == ("ant", "bee", "cat")
    assert set(model.predict(dogs)) <= {"ant", "bee", "cat"}


def test_without_any_adapter_the_prototypes_answer():
    samples = embed(many(40), dim=8)
    model = Model.assemble({}, total([samples]), Recipe(method="safe"), 0)
    unit = samples.features / np.linalg.norm(samples.features, axis=1, keepdims=True)
    means = np.stack([unit[[own == label for own in samples.labels]].mean(axis=0) for label in model.classes])
    cosine = unit @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    assert model.weight == 1.0
    assert model.predict(samples) == [model.classes[i] for i in cosine.argmax(axis=1)]


@every_recipe
def test_a_class_without_an_adapter_is_answered_by_its_prototype(recipe):
    """Its group has nothing to compare it with; the others' adapters speak, and must not drown it."""
    parts, adapters, _ = assembled(recipe)
    eels = embed([row._replace(id=f"eel{row.id}") for row in many(12, labels=["eel"])], dim=8)
    sums = total([*parts.values(), eels], second_order=recipe.second_order)
    model = Model.assemble(adapters, sums, replace(recipe, prototypes=True), 0)
    scores = model.scores(concatenate([eels, *parts.values()]))
    rank = (scores > scores[:, [model.classes.index("eel")]]).sum(axis=1)
    assert rank[:12].mean() < rank[12:].mean() - 0.5, "eels look more like eels than the others do"


@every_recipe
def test_a_model_that_knows_nothing_says_so(recipe):
    model = Model.assemble({}, Prototypes(), Recipe(method="safe"), 0)
    with pytest.raises(WorkspaceError, match="knows no class"):
        model.predict(embed(many(1)))


CLOSE = {"rtol": 1e-4, "atol": 1e-4}  # float32, sums in another order


def drawn(adapters, dim):
    return torch.randn(2, adapters, dim, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("projection", ["random", "orthogonal", "identity"])
def test_packed_adapters_equal_the_forward_pass_of_training(projection):
    attention = frozen_attention(8, Recipe(projection=projection, heads=2), 3)
    keys = inca.project(embed(many(7), dim=8, most_tokens=4), attention)
    assert keys.bias is not None, "tokens of unequal number are wanted here"
    q, v = drawn(5, 8)
    found = PackedAdapters.pack(q, v, attention).logits_of(keys)
    torch.testing.assert_close(found, inca.forward(q, v, keys, attention).logits, **CLOSE)


def test_scores_too_high_for_an_exponential_are_told_apart():
    attention = frozen_attention(512, Recipe(heads=32), 3)
    q, v = drawn(3, 512)
    q[:, :16] *= 1000  # nearly all of a query's length in one head
    samples = embed(many(4), dim=512, most_tokens=3)
    samples.tokens[:, :16] *= 100
    keys = inca.project(samples, attention)
    packed = PackedAdapters.pack(q, v, attention)
    assert packed.longest_query * float(keys.keys.norm(dim=-1).max()) > 88 > SAFE_EXPONENT  # float32 ends at exp(88)
    torch.testing.assert_close(packed.logits_of(keys), inca.forward(q, v, keys, attention).logits, **CLOSE)


def test_an_answer_stays_when_its_memory_is_used_again():
    attention = frozen_attention(8, Recipe(heads=2), 3)
    few, lots = (embed(many(9), dim=8, most_tokens=most) for most in (2, 6))
    packed = PackedAdapters.pack(*drawn(5, 8), attention)
    first = packed.logits(few)
    kept = first.clone()
    with torch.inference_mode():
        second = packed.logits(lots)
    assert torch.equal(first, kept) and torch.equal(packed.logits(few), kept)
    assert torch.equal(packed.logits(lots), second)
    fresh = PackedAdapters.pack(*drawn(5, 8), attention)
    assert torch.equal(fresh.logits(lots), second)
