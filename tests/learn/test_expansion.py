"""Random features of tokens: the same bits, whatever the company, the order and the threads."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.learn import prototypes as expansion
from shardgraph.learn.prototypes import STEPS, describe, expand, total
from tests.strategies import embed, many


def samples(count=30, dim=6):
    return embed(many(count, labels=("ant", "bee", "cat")), dim=dim, most_tokens=5)


def naive(sample, width):
    """The features of one sample, summed in Python's integers, token by token."""
    dim = sample.tokens.shape[1]
    signs, threshold = expansion._signs(dim, width).int().numpy(), round(STEPS * dim**0.5)
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
    monkeypatch.setattr(expansion, "TOKENS", tokens)
    assert np.array_equal(expand(whole, 2), expected)


def test_threads_and_float64_give_the_same_integers():
    wide = samples(20, dim=512)
    signs, tokens = expansion._signs(512, 64), expansion._normalised(wide.tokens)
    exact = tokens.double() @ signs.double()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        assert torch.equal((tokens @ signs).double(), exact)
    torch.set_num_threads(1)


def test_no_sample_has_no_features():
    assert expand(samples().take([]), 2).shape == (0, 12)


def test_wide_tokens_have_no_more_features_than_the_limit(monkeypatch):
    monkeypatch.setattr(expansion, "MOST", 9)
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
