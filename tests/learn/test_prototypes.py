"""Prototypes: exact integer sums, restored to the byte by subtraction; random features equal in any batch."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import DamagedFile
from shardgraph.learn import prototypes as module
from shardgraph.learn.prototypes import SCALE, STEPS, Prototypes, describe, expand, lengths, quantise, total
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


def samples(count=30, dim=6):
    return embed(many(count, labels=("ant", "bee", "cat")), dim=dim, most_tokens=5)


def naive(sample, width):
    """The features of one sample, summed in Python's integers, token by token."""
    dim = sample.tokens.shape[1]
    signs, threshold = module._signs(dim, width).int().numpy(), round(STEPS * dim**0.5)
    sums = np.zeros(width, dtype=object)
    for token in sample.tokens.astype(np.float64):
        centred = token - token.mean()
        steps = [int(x) for x in np.rint(centred / np.sqrt((centred**2).mean() + 1e-6) * STEPS)]
        reach = [sum(s * x for s, x in zip(column, steps, strict=True)) for column in signs.T.tolist()]
        sums += [max(0, x - threshold) for x in reach]
    return [math.sqrt(x / (len(sample.tokens) * STEPS * math.sqrt(dim)) + 1e-3) for x in sums.tolist()]


def test_features_equal_integer_arithmetic_token_by_token():
    whole = samples()
    found = expand(whole, 4)
    for i in range(len(whole)):
        assert (found[i] == naive(whole.take([i]), 24)).all()


@given(rows=st.lists(st.integers(0, 29), min_size=1, max_size=60))
def test_a_row_does_not_depend_on_its_company(rows):
    whole = samples()
    assert np.array_equal(expand(whole.take(rows), 2), expand(whole, 2)[rows])


@pytest.mark.parametrize("tokens", [1, 2, 7, 1000])
def test_where_a_block_ends_changes_nothing(tokens, monkeypatch):
    whole = samples()
    expected = expand(whole, 2)
    monkeypatch.setattr(module, "TOKENS", tokens)
    assert np.array_equal(expand(whole, 2), expected)


def test_threads_and_float64_give_the_same_integers():
    wide = samples(20, dim=512)
    signs, tokens = module._signs(512, 64), module._normalised(wide.tokens)
    exact = tokens.double() @ signs.double()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        assert torch.equal((tokens @ signs).double(), exact)
    torch.set_num_threads(1)


def test_no_sample_has_no_features():
    assert expand(samples().take([]), 2).shape == (0, 12)


def test_wide_tokens_have_no_more_features_than_the_limit(monkeypatch):
    monkeypatch.setattr(module, "MOST", 9)
    assert expand(samples(), 1).shape == (30, 6)
    assert expand(samples(), 2).shape == (30, 9)


def test_both_parts_of_a_description_weigh_the_same():
    whole = samples()
    described = describe(whole, 4).astype(float)
    halves = np.linalg.norm(described[:, :6], axis=1), np.linalg.norm(described[:, 6:], axis=1)
    assert described.shape == (30, 6 + 24)
    assert np.allclose(*halves, rtol=1e-3)  # each is rounded


@pytest.mark.parametrize("gone", [(4,), (4, 9), (1, 4, 9), tuple(range(25))], ids=len)
def test_subtracting_gives_the_bytes_of_never_having_added(gone):
    whole = samples()
    left = total([whole], second_order=True, expansion=3).minus(whole.take(gone))
    kept = [i for i in range(30) if i not in gone]
    assert left.to_bytes() == total([whole.take(kept)], second_order=True, expansion=3).to_bytes()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("tf32", [False, True])
def test_a_gpu_gives_the_bytes_of_the_cpu(tf32):
    whole, before = samples(dim=64), torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        found = total([whole], second_order=True, expansion=16, device="cuda").to_bytes()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert found == total([whole], second_order=True, expansion=16).to_bytes()


def test_what_a_caller_set_does_not_reach_the_bits():
    samples = embed(many(12), dim=64, most_tokens=20)
    plain = expand(samples, 4)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert expand(samples, 4).tobytes() == plain.tobytes()
    finally:
        torch.set_float32_matmul_precision(before)
