"""Samples in columns: picking, joining, canonical order, and what may not come in."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import DuplicateSample, InputError
from shardgraph.storage.samples import check, concatenate, from_arrays
from tests.strategies import embed, many, rows


def same(one, other):
    columns = ("ids", "labels", "sources", "subjects", "splits")
    arrays = ("tokens", "offsets", "features")
    return all(getattr(one, name) == getattr(other, name) for name in columns) and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in arrays
    )


@given(drawn=rows(), data=st.data())
def test_taking_rows_is_embedding_those_rows(drawn, data):
    chosen = data.draw(st.lists(st.integers(0, len(drawn) - 1)))
    assert same(embed(drawn).take(chosen), embed([drawn[i] for i in chosen]))


@given(drawn=rows(), cut=st.integers(0, 12))
def test_joining_parts_gives_the_whole(drawn, cut):
    assert same(concatenate([embed(drawn[:cut]), embed(drawn[cut:])]), embed(drawn))


@given(drawn=rows(), order=st.randoms())
def test_canonical_order_is_by_the_bytes_of_the_id_whatever_came_first(drawn, order):
    shuffled = list(drawn)
    order.shuffle(shuffled)
    found = embed(shuffled).canonical()
    assert list(found.ids) == sorted((row.id for row in drawn), key=str.encode)
    assert same(found, embed(drawn).canonical())


def test_good_samples_pass():
    samples = embed(many(5))
    assert check(samples) is samples


def spoiled(**changes):
    return replace(embed(many(4)), **changes)


NAN = embed(many(4)).tokens.copy()
NAN[-1, 2] = np.nan
INFINITE = embed(many(4)).features.copy()
INFINITE[1, 0] = np.inf
OFFSETS = embed(many(4)).offsets
IDS = embed(many(4)).ids

BAD = {
    "an id twice": (lambda: spoiled(ids=(*IDS[:3], IDS[0])), "more than once", IDS[:1]),
    "an empty id": (lambda: spoiled(ids=(*IDS[:3], "")), "id that is not empty", ()),
    "empty ids": (lambda: spoiled(ids=("", "", "", "")), "id that is not empty", ()),
    "an id that is no text": (lambda: spoiled(ids=(*IDS[:3], "\ud800")), "valid text", ()),
    "a subject that is no text": (lambda: spoiled(subjects=("", "", "", "s\ud800")), "subjects must be valid text", ()),
    "an empty label": (lambda: spoiled(labels=("a", "", "a", "a")), "label that is not empty", ()),
    "an unknown split": (lambda: spoiled(splits=("train", "dev", "train", "train")), "'dev'", ()),
    "a sample without tokens": (
        lambda: spoiled(offsets=np.array([0, 0, *OFFSETS[2:]])),
        "at least one token",
        IDS[:1],
    ),
    "NaN in a token": (lambda: spoiled(tokens=NAN), "NaN or infinity", IDS[3:]),
    "infinity in a feature": (lambda: spoiled(features=INFINITE), "NaN or infinity", IDS[1:2]),
    "tokens of one dimension": (lambda: spoiled(tokens=NAN[:, 0]), "tokens must", ()),
    "features of three dimensions": (lambda: spoiled(features=INFINITE[:, None]), "features must", ()),
    "tokens that nobody owns": (lambda: spoiled(tokens=np.concatenate([NAN[:-1], NAN[:-1]])), "offsets must", ()),
    "offsets that go back": (lambda: spoiled(offsets=OFFSETS[::-1]), "offsets must", ()),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_learned_from_is_named(case):
    make, message, ids = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        check(make())
    assert caught.value.ids == tuple(ids)


def test_an_id_that_comes_often_is_named_once():
    with pytest.raises(DuplicateSample, match="got 'a' more than once") as caught:
        check(spoiled(ids=("a", "a", "a", "b")))
    assert caught.value.ids == ("a",)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "factor"), [("float16", 1e6), ("float32", 1e60)])
def test_finite_numbers_that_need_a_wider_type_are_called_that(dtype, factor):
    X = np.ones((2, 3), np.float64) * factor
    with pytest.raises(InputError, match=f"must fit {dtype}, got 1e"):
        from_arrays(X, ["a", "b"], dtype=dtype)
    X[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        check(from_arrays(X, ["a", "b"], dtype=dtype))


@pytest.mark.parametrize("part", ["tokens", "features"])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_whose_squares_leave_float32_are_refused(part, sign):
    fine = from_arrays(np.full((3, 4), sign * 2.0**40), ["a", "b", "a"], dtype="float32")
    assert check(fine) is fine
    large = getattr(fine, part).copy()
    large[1, 2] = sign * 2.0**41
    with pytest.raises(InputError, match=r"within 2\^40, got larger ones in '1'") as caught:
        check(replace(fine, **{part: large}))
    assert caught.value.ids == ("1",)


def test_an_id_twice_is_an_error_of_its_own():
    with pytest.raises(DuplicateSample):
        check(BAD["an id twice"][0]())
