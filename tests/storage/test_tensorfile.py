"""Tensor files: one spelling per content, in the bytes that the safetensors format prescribes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from safetensors.numpy import load, save

from shardgraph.digest import digest, digest_of_pieces
from shardgraph.errors import DamagedFile
from shardgraph.storage.samples import pack, pack_strings, pieces, unpack, unpack_strings

TYPES = st.sampled_from(["float16", "float32", "float64", "int32", "int64", "uint8", "bool"])
TENSORS = st.dictionaries(
    st.text(alphabet="abc.é", min_size=1, max_size=5),
    TYPES.flatmap(lambda dtype: hn.arrays(dtype, hn.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))),
    max_size=5,
)


def test_the_bytes_of_a_tiny_file():
    raw = pack({"b": np.array([1, -2], np.int32), "a": np.array([[1.5]], np.float16)})
    header = (
        b'{"b":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},'
        b'"a":{"dtype":"F16","shape":[1,1],"data_offsets":[8,10]}}'
    )
    header += b" " * (-len(header) % 8)
    data = b"\x01\x00\x00\x00" + b"\xfe\xff\xff\xff" + b"\x00\x3e"
    assert raw == len(header).to_bytes(8, "little") + header + data


@given(TENSORS)
def test_tensors_come_back_and_safetensors_reads_them(tensors):
    raw = pack(tensors)
    for found in (unpack(raw), load(raw)):
        assert set(found) == set(tensors)
        for name, array in tensors.items():
            assert found[name].dtype == array.dtype and found[name].shape == array.shape
            assert found[name].tobytes() == array.tobytes()


@given(TENSORS)
def test_the_bytes_are_those_that_safetensors_writes(tensors):
    assert pack(tensors) == save(tensors)


@given(TENSORS)
def test_pieces_have_the_digest_of_the_file(tensors):
    assert digest_of_pieces(pieces(tensors)) == digest(pack(tensors))


@given(TENSORS)
def test_bytes_do_not_depend_on_the_order_of_names_or_the_layout_of_memory(tensors):
    turned = {name: np.asfortranarray(tensors[name]) for name in reversed(tensors)}
    assert pack(turned) == pack(tensors)


def test_tensors_are_views_and_not_copies():
    raw = bytearray(pack({"x": np.arange(4, dtype=np.int64)}))
    view = unpack(raw)["x"]
    raw[-8:] = (9).to_bytes(8, "little")
    assert view.tolist() == [0, 1, 2, 9]


def test_a_file_torn_anywhere_is_told_apart():
    raw = pack({"x": np.arange(4, dtype=np.int64), "y": np.ones(3, np.float32)})
    for size in range(len(raw)):
        with pytest.raises(DamagedFile, match=f"{size} bytes"):
            unpack(raw[:size])
    assert set(unpack(raw)) == {"x", "y"}


@pytest.mark.parametrize(
    "raw", [b"", b"hello", b"\xff" * 64, bytes(64), b"\x02" + bytes(7) + b"[]", b"\x04" + bytes(7) + b"null"]
)
def test_what_is_no_tensor_file_is_told_apart(raw):
    with pytest.raises(DamagedFile):
        unpack(raw)


@given(st.lists(st.text(max_size=5)))
def test_strings_come_back(strings):
    assert unpack_strings("s", unpack(pack(pack_strings("s", strings)))) == tuple(strings)
