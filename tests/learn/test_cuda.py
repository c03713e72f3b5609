"""The GPU's kernels, run by Triton's interpreter on the CPU: the same code, the same arithmetic, slowly."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from shardgraph.learn.cuda.inference import logits
from shardgraph.learn.cuda.training import lay_out, train_groups
from shardgraph.learn.ensemble import PackedAdapters
from shardgraph.learn.executors import on_gpu
from shardgraph.learn.group import GroupInputs, train_group
from shardgraph.learn.inca import frozen_attention
from shardgraph.learn.recipe import Recipe
from tests.strategies import embed, many

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")


def group(name, count, labels=("ant", "bee", "cat"), classes=None, **shape):
    rows = [row._replace(id=f"{name}{row.id}") for row in many(count, labels=labels)]
    samples = embed(rows, dim=32, **shape).canonical()
    return GroupInputs(name, samples, classes or tuple(sorted(set(samples.labels))))


def trained(groups, recipe):
    return [adapters.to_bytes() for adapters in train_groups(groups, recipe, 7, "cpu")]


@pytest.mark.parametrize("loss", ["ce", "bce"])
@pytest.mark.parametrize("classes", [None, ("ant", "cat")], ids=["all classes", "with background"])
def test_kernels_agree_with_the_closed_form_of_the_cpu(loss, classes):
    recipe = Recipe(heads=2, epochs=2, batch=4, loss=loss, lr=0.01)
    one = group("g", 7, classes=classes, most_tokens=4)
    found = next(train_groups([one], recipe, 7, "cpu"))
    expected = train_group(one.name, one.samples, one.classes, recipe, 7)
    # half precision keys carry 11 bits; AdamW turns the sign of a vanishing gradient into a step of lr
    gap = np.linalg.norm(found.first - expected.first) / np.linalg.norm(expected.first)
    assert gap < 5e-3
    assert np.linalg.norm(found.second - expected.second) < 0.05 * np.linalg.norm(expected.second)


def test_a_group_begins_where_its_start_ended_for_the_classes_that_it_knows():
    recipe = Recipe(heads=2, epochs=1, batch=4, lr=0.01)
    whole = group("g", 7, most_tokens=4)
    before = train_group("before", whole.samples, ("ant", "cat"), replace(recipe, epochs=30), 7)
    found = next(train_groups([replace(whole, start=before)], recipe, 7, "cpu"))
    expected = train_group(whole.name, whole.samples, whole.classes, recipe, 7, before)
    afresh = train_group(whole.name, whole.samples, whole.classes, recipe, 7)
    assert np.linalg.norm(found.second - expected.second) < 0.05 * np.linalg.norm(expected.second)
    assert np.linalg.norm(found.second - afresh.second) > 0.5 * np.linalg.norm(expected.second)


def test_a_group_has_the_same_bytes_alone_first_last_and_in_company():
    recipe = Recipe(heads=2, epochs=1, batch=3)
    mine = group("mine", 5, most_tokens=3)
    others = [group("a", 3, most_tokens=3), group("b", 7, most_tokens=3), group("c", 4, labels=tuple("defgh"))]
    alone = trained([mine], recipe)[0]
    assert trained([mine, *others], recipe)[0] == alone
    assert trained([*others, mine], recipe)[-1] == alone
    assert trained([others[0], mine, others[1]], recipe)[1] == alone


def test_more_adapters_than_one_block_and_another_padded_shape_train_too():
    labels = tuple(f"k{i:02d}" for i in range(70))
    many_classes, few = group("many", 70, labels=labels), group("few", 4)
    many_classes = GroupInputs("many", many_classes.samples.take([0, 1, 2]), many_classes.classes)
    recipe = Recipe(heads=1, epochs=1, batch=4)
    together = trained([few, many_classes], recipe)
    assert together == trained([few], recipe) + trained([many_classes], recipe)


def test_only_what_the_kernels_cover_is_sent_to_them():
    assert on_gpu((1024, 7), Recipe())
    assert not on_gpu((1024, 7), Recipe(projection="random"))
    assert not on_gpu((1024, 7), Recipe(adapter="linear"))
    assert not on_gpu((10, 7), Recipe())


def test_all_adapters_answer_as_on_the_cpu():
    attention = frozen_attention(32, Recipe(heads=2), 0)
    q, v = torch.randn(2, 70, 32, generator=torch.Generator().manual_seed(0))
    packed = PackedAdapters.pack(q, v, attention)
    samples = embed(many(5), dim=32, most_tokens=3)
    found = logits(*packed._rows, lay_out([samples], 2, "cpu"))
    # keys and queries carry 11 bits here
    assert torch.allclose(found, packed.logits_of(packed.keys(samples)), atol=0.05, rtol=0.01)
