"""Shard files: a function of the samples alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardgraph.errors import DamagedFile
from shardgraph.storage.samples import pack_samples, unpack, unpack_samples
from tests.strategies import embed, many, rows


@given(drawn=rows(), order=st.randoms())
def test_bytes_do_not_depend_on_the_order_of_the_samples(drawn, order):
    shuffled = list(drawn)
    order.shuffle(shuffled)
    assert pack_samples(embed(shuffled)) == pack_samples(embed(drawn))


@given(drawn=rows(), data=st.data())
def test_bytes_do_not_depend_on_samples_that_left(drawn, data):
    kept = data.draw(st.lists(st.integers(0, len(drawn) - 1), unique=True, min_size=1))
    after = unpack_samples(pack_samples(embed(drawn)))
    left = after.take([i for i, sample in enumerate(after.ids) if sample in {drawn[k].id for k in kept}])
    assert pack_samples(left) == pack_samples(embed([drawn[k] for k in kept]))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_samples_come_back(dtype):
    samples = embed(many(9), most_tokens=4, dtype=dtype)
    back = unpack_samples(pack_samples(samples))
    assert (back.ids, back.labels) == (samples.ids, samples.labels)
    assert back.tokens.dtype == dtype and np.array_equal(back.tokens, samples.tokens)
    assert np.array_equal(back.offsets, samples.offsets) and np.array_equal(back.features, samples.features)


def test_sources_and_subjects_stay_outside():
    raw = pack_samples(embed(many(9)))
    assert b"web" not in raw and b"p1" not in raw
    assert set(unpack(raw)) == {
        "ids.bytes", "ids.ends", "table.bytes", "table.ends", "labels", "tokens", "offsets", "features",
    }  # fmt: skip


def test_every_sample_and_every_label_tells():
    base = pack_samples(embed(many(5)))
    changed = [
        embed(many(4)),
        embed([*many(4), many(5)[4]._replace(label="eel")]),
        embed([*many(4), many(5)[4]._replace(version=1)]),
    ]
    assert len({base, *map(pack_samples, changed)}) == 4


def test_a_torn_file_is_told_apart():
    with pytest.raises(DamagedFile):
        unpack_samples(pack_samples(embed(many(5)))[:-1])
