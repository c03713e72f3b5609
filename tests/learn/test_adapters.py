import numpy as np
import pytest

from shardgraph.errors import DamagedFile
from shardgraph.learn.adapters import Adapters

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
