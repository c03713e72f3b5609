"""Prototypes: integer sums, so that what leaves leaves nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import DamagedFile
from shardgraph.learn.prototypes import SCALE, Prototypes, lengths, quantise, total
from tests.strategies import LABELS, Row, embed, many, rows


def in_parts(draw, items):
    """The items in some order, cut into parts."""
    items = draw(st.permutations(items))
    cuts = sorted(draw(st.lists(st.integers(0, len(items)), max_size=3)))
    return [items[a:b] for a, b in zip([0, *cuts], [*cuts, len(items)], strict=True)]


both_orders = pytest.mark.parametrize("second_order", [False, True], ids=["first order", "second order"])


@both_orders
@given(data=st.data(), drawn=rows(most=14))
def test_what_came_and_went_in_any_order_leaves_the_bytes_of_what_never_came(second_order, data, drawn):
    leaving = data.draw(st.sets(st.sampled_from(drawn)))
    prototypes = total([], second_order=second_order)
    for part in in_parts(data.draw, drawn):
        prototypes = prototypes.plus(embed(part))
    for part in in_parts(data.draw, sorted(leaving)):
        prototypes = prototypes.minus(embed(part))
    never = total([embed([row for row in drawn if row not in leaving])], second_order=second_order)
    assert prototypes.to_bytes() == never.to_bytes()
    assert Prototypes.from_bytes(prototypes.to_bytes()).to_bytes() == never.to_bytes()


@both_orders
def test_when_the_last_sample_leaves_the_bytes_are_those_of_the_beginning(second_order):
    samples = embed(many(5))
    gone = total([samples], second_order=second_order).minus(samples)
    assert gone.to_bytes() == total([], second_order=second_order).to_bytes()
    assert gone.plus(samples).to_bytes() == total([samples], second_order=second_order).to_bytes()


@pytest.mark.parametrize("rows_at_a_time", [1, 7, 10**6])
def test_how_many_rows_are_summed_at_a_time_changes_no_byte(monkeypatch, rows_at_a_time):
    parts = [embed(many(30)[i : i + 4]) for i in range(0, 30, 4)]
    expected = total(parts, second_order=True).to_bytes()
    monkeypatch.setattr("shardgraph.learn.prototypes.MANY", rows_at_a_time)
    monkeypatch.setattr("shardgraph.learn.prototypes.BLOCK", rows_at_a_time)
    assert total(parts, second_order=True).to_bytes() == expected


def test_a_class_that_has_no_sample_left_is_gone():
    prototypes = total([embed(many(8))]).minus(embed([row for row in many(8) if row.label == "bee"]))
    assert prototypes.classes == ("ant", "cat", "dog")
    assert prototypes.counts.tolist() == [2, 2, 2]


@pytest.mark.parametrize("features", [1, 7, 384, 9000])
def test_a_row_is_quantised_the_same_in_any_company(features):
    x = np.random.default_rng(0).standard_normal((33, features)).astype(np.float32)
    whole = quantise(x)
    assert np.array_equal(whole, np.concatenate([quantise(row[None]) for row in x]))
    assert np.array_equal(whole[::3], quantise(x[::3]))
    assert np.array_equal(whole, quantise(np.asfortranarray(x)))


def test_quantised_rows_are_unit_vectors_in_steps_of_two_to_minus_15():
    assert quantise(np.array([[3.0, -4.0], [0.0, 0.0]], np.float32)).tolist() == [[19661, -26214], [0, 0]]
    x = np.random.default_rng(0).standard_normal((20, 50))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert np.abs(quantise(x) / SCALE - unit).max() <= 0.5 / SCALE + 1e-12


def test_vectors_are_the_normalised_means_of_normalised_features():
    samples = embed(many(40), dim=16)
    prototypes = total([samples])
    unit = samples.features / np.linalg.norm(samples.features, axis=1, keepdims=True)
    for label, vector in zip(prototypes.classes, prototypes.vectors(), strict=True):
        mean = unit[[i for i, own in enumerate(samples.labels) if own == label]].mean(axis=0)
        # each feature was rounded by at most 2^-16; the mean of ten of norm about one no worse
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=2**-14)


def test_features_that_cancel_give_a_zero_vector_and_no_nan():
    one, other = embed([Row("a", "ant")]), embed([Row("b", "ant")])
    object.__setattr__(other, "features", -one.features)
    prototypes = total([one, other])
    assert prototypes.counts.tolist() == [2]
    assert prototypes.vectors().tolist() == [[0.0] * 8]


def test_a_torn_file_is_told_apart():
    raw = total([embed(many(8))]).to_bytes()
    assert Prototypes.from_bytes(raw).classes == LABELS
    with pytest.raises(DamagedFile):
        Prototypes.from_bytes(raw[:-1])


@pytest.mark.parametrize("width", [7, 1280, 8192, 8193, 9000, 20000])
def test_the_length_of_a_row_does_not_depend_on_its_company(width):
    x = np.random.default_rng(width).normal(size=(13, width))
    alone = np.concatenate([lengths(row[None]) for row in x])
    assert lengths(x).tolist() == alone.tolist() == lengths(x[::-1].copy())[::-1].tolist()


def test_a_caller_that_flushes_the_smallest_numbers_to_zero_changes_no_bit():
    few = embed(many(6), dim=8, most_tokens=2)
    small = replace(few, features=few.features * np.float32(1e-39), tokens=few.tokens.astype(np.float32) * 1e-39)
    expected = total([small], second_order=True, expansion=2).to_bytes()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such mode")
    try:
        assert total([small], second_order=True, expansion=2).to_bytes() == expected
        assert (torch.tensor(2.0**-140) * 1).item() == 0, "the caller's setting is as it was"
    finally:
        torch.set_flush_denormal(False)
