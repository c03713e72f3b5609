import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from shardgraph.embedding.readers.arrays import read_arrays
from shardgraph.errors import DuplicateSample, InputError

RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(6, 4, 3)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
LABELS = np.array(["a", "b", "a", "b", "a", "b"])


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "arrays.npz", **arrays)
        return tmp_path / "arrays.npz"

    return write


def test_tokens_with_a_mask_keep_the_unmasked_tokens_and_their_mean(npz):
    samples = read_arrays(npz(tokens=TOKENS, mask=MASK, labels=LABELS, ids=np.arange(6)), dtype="float32")
    assert samples.ids == ("0", "1", "2", "3", "4", "5") and samples.labels == tuple(LABELS.tolist())
    assert np.diff(samples.offsets).tolist() == MASK.sum(axis=1).tolist()
    assert np.array_equal(samples.tokens[5:7], TOKENS[2, 1:3])
    expected = TOKENS[2, 1:3].astype(np.float64).mean(axis=0).astype(np.float32)
    assert np.array_equal(samples.features[2], expected)


def test_features_alone_are_their_samples_one_token(npz):
    samples = read_arrays(npz(features=TOKENS[:, 0], labels=np.arange(6)))
    assert samples.tokens.dtype == np.float16 and samples.features.dtype == np.float32
    assert np.array_equal(samples.tokens, TOKENS[:, 0].astype(np.float16))
    assert samples.labels == ("0", "1", "2", "3", "4", "5") and samples.splits == ("train",) * 6


@pytest.mark.parametrize("rows", [[3], [5, 3], [0, 1, 2, 3]])
def test_a_sample_has_the_same_id_and_bits_in_any_company(npz, rows):
    whole = read_arrays(npz(tokens=TOKENS, mask=MASK, labels=LABELS))
    part = read_arrays(npz(tokens=TOKENS[rows], mask=MASK[rows], labels=LABELS[rows]))
    here, there = part.take([rows.index(3)]), whole.take([3])
    assert here.ids == there.ids and here.ids[0].startswith("sha256:")
    assert here.tokens.tobytes() == there.tokens.tobytes()
    assert here.features.tobytes() == there.features.tobytes()


def test_safetensors_reads_strings_and_class_names_from_its_metadata(tmp_path):
    tensors = {"tokens": torch.from_numpy(TOKENS).bfloat16(), "labels": torch.tensor([0, 1, 0, 1, 0, 1])}
    metadata = {"classes": json.dumps(["cat", "dog"]), "ids": json.dumps(list("uvwxyz"))}
    save_file(tensors, tmp_path / "a.safetensors", metadata)
    samples = read_arrays(tmp_path / "a.safetensors", dtype="float32")
    assert samples.labels[:2] == ("cat", "dog") and samples.ids == tuple("uvwxyz")
    assert np.array_equal(samples.tokens.reshape(6, 4, 3), torch.from_numpy(TOKENS).bfloat16().float().numpy())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": LABELS}, "'tokens' .* or 'features'"),
        ({"tokens": TOKENS}, "must hold 'labels'"),
        ({"tokens": TOKENS[:, 0], "labels": LABELS}, "'tokens' must have 3 dimensions"),
        ({"tokens": TOKENS, "labels": LABELS[:5]}, "'labels' must have 1 dimensions and 6 rows"),
        ({"tokens": TOKENS, "labels": LABELS, "mask": MASK[:, :2]}, "'mask' must have the first two"),
        ({"tokens": TOKENS[:0], "labels": LABELS[:0]}, "at least one sample"),
        ({"tokens": TOKENS * np.float32(1e6), "labels": LABELS}, "must fit float16"),
        ({"tokens": TOKENS * np.nan, "labels": LABELS, "ids": np.arange(6)}, "must be finite"),
        ({"tokens": TOKENS, "labels": LABELS, "mask": MASK * 0}, "at least one token"),
        ({"tokens": TOKENS.astype(int), "labels": LABELS}, "must hold floats"),
        ({"tokens": TOKENS, "labels": TOKENS[:, 0, 0]}, "integers or strings"),
        ({"tokens": TOKENS, "labels": LABELS, "ids": np.array([b"\xff%d" % i for i in range(6)])}, "'ids' .* UTF-8"),
        ({"tokens": TOKENS, "labels": LABELS, "subjects": np.array(["s\ud800"] * 6)}, "subjects must be valid text"),
        ({"tokens": TOKENS, "labels": LABELS.astype(object)}, "is pickled and is not loaded"),
        ({"tokens": TOKENS, "labels": np.arange(6), "classes": LABELS[:2]}, "must be from 0 to 1"),
    ],
)
def test_arrays_that_cannot_be_learned_from_are_refused(npz, arrays, message):
    with pytest.raises(InputError, match=message):
        read_arrays(npz(**arrays))


def test_equal_rows_without_ids_are_reported_as_one_id_given_twice(npz):
    with pytest.raises(DuplicateSample):
        read_arrays(npz(tokens=TOKENS[[0, 0]], labels=LABELS[:2]))


def test_an_ending_may_be_in_capitals(npz, tmp_path):
    path = npz(tokens=TOKENS, labels=LABELS).rename(tmp_path / "D.NPZ")
    save_file({"tokens": torch.from_numpy(TOKENS), "labels": torch.arange(6)}, tmp_path / "D.SAFETENSORS")
    assert len(read_arrays(path)) == len(read_arrays(tmp_path / "D.SAFETENSORS")) == 6


@pytest.mark.parametrize(
    "name", ["missing.npz", "empty.npz", "empty.safetensors", "torn.npz", "torn.safetensors", "odd.bin"]
)
def test_files_that_are_no_arrays_are_refused(tmp_path, name):
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"" if name.startswith("empty") else b"PK\x03\x04 not really")
    with pytest.raises(InputError):
        read_arrays(tmp_path / name)
