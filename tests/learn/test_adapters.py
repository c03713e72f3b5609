"""Adapters and their bytes; the digest of a model."""

import numpy as np
import pytest

from shardgraph.errors import DamagedFile
from shardgraph.learn.inca import Adapters, model_digest

INCA = Adapters("inca", ("bee", "é"), np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32), 17)
LINEAR = Adapters("linear", ("bee", "é"), np.ones((2, 3), np.float32), np.zeros(2, np.float32), 17)


@pytest.mark.parametrize("adapters", [INCA, LINEAR], ids=["inca", "linear"])
def test_adapters_come_back_from_their_bytes(adapters):
    back = Adapters.from_bytes(adapters.to_bytes())
    assert (back.kind, back.classes, back.samples) == (adapters.kind, adapters.classes, 17)
    assert np.array_equal(back.first, adapters.first) and np.array_equal(back.second, adapters.second)
    assert back.digest == adapters.digest


def test_the_digest_depends_on_every_part():
    changes = [
        Adapters("inca", ("bee", "e"), INCA.first, INCA.second, 17),
        Adapters("inca", INCA.classes, INCA.second, INCA.second, 17),
        Adapters("inca", INCA.classes, INCA.first, INCA.first, 17),
        Adapters("inca", INCA.classes, INCA.first, INCA.second, 18),
        LINEAR,
    ]
    assert len({INCA.digest, *(changed.digest for changed in changes)}) == 6


def test_a_torn_file_is_told_apart():
    with pytest.raises(DamagedFile):
        Adapters.from_bytes(INCA.to_bytes()[:-4])


def test_the_digest_covers_names_adapters_prototypes_classes_and_lambda():
    base = ({"a": "1", "b": "2"}, "p", ("x", "y"), 0.5)
    changed = [
        ({"a": "2", "b": "1"}, *base[1:]),
        ({"a": "1", "c": "2"}, *base[1:]),
        ({"a": "1"}, *base[1:]),
        (base[0], "q", *base[2:]),
        (*base[:2], ("xy",), 0.5),
        (*base[:3], np.nextafter(0.5, 1).item()),
    ]
    assert len({model_digest(*base), *(model_digest(*other) for other in changed)}) == 7
    assert model_digest({"b": "2", "a": "1"}, *base[1:]) == model_digest(*base)
