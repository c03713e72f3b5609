"""The promise of every backbone: bits depend on the sample, whatever its company, order or position."""

from typing import Any

import numpy as np
import pytest
import torch

from shardgraph.digest import canonical_json
from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.backbones.decoders import exact_numerics
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.records import Record
from shardgraph.errors import InputError
from shardgraph.storage.samples import Samples, concatenate
from tests.embedding.backbones.payloads import pictures, texts

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
NAMES = ["lite0", "lite0-64", "minilm", "hf-vit", "hf-bert", "vit"]


def records_for(backbone: Backbone, n: int) -> list[Record]:
    payloads = texts(n) if backbone.modality == "text" else pictures(n)
    return [Record(f"s{i}", "class", payload) for i, payload in enumerate(payloads)]


def bits(samples: Samples) -> dict[str, tuple[bytes, bytes]]:
    rows = [samples.take([i]) for i in range(len(samples))]
    return {row.ids[0]: (row.tokens.tobytes(), row.features.tobytes()) for row in rows}


def embedded(backbone: Backbone, records: list[Record], **options: Any) -> dict[str, tuple[bytes, bytes]]:
    samples = concatenate(embed(records, backbone, **options))
    assert samples.ids == tuple(record.id for record in records)
    return bits(samples)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_has_the_same_bits_alone_first_last_and_in_any_order(load, name, device):
    backbone = load(name, device)
    records = records_for(backbone, 5 if (name, device) == ("lite0", "cpu") else 24)
    whole = embedded(backbone, records)
    assert len(set(whole.values())) == len(whole), "different samples must have different embeddings"
    assert embedded(backbone, records[::-1], chunk=7, workers=1) == whole
    assert embedded(backbone, records[3:] + records[:3], workers=3) == whole
    for record in (records[0], records[3], records[-1]):
        assert embedded(backbone, [record]) == {record.id: whole[record.id]}


@pytest.mark.parametrize("name", ["lite0-64", "hf-vit", "vit"])
@pytest.mark.parametrize("rows", [2, 5])
def test_images_in_batches_do_not_feel_their_position(load, monkeypatch, name, rows):
    backbone = load(name)  # as on a GPU, where passes have many rows
    monkeypatch.setattr(backbone, "batch_size", lambda bucket: rows)
    monkeypatch.setattr(backbone, "_rows", {})
    records = records_for(backbone, 12)
    whole = embedded(backbone, records)
    assert embedded(backbone, records[::-1], chunk=5) == whole
    assert embedded(backbone, records[7:8]) == {records[7].id: whole[records[7].id]}


@pytest.mark.parametrize("name", ["minilm", "hf-bert"])
def test_a_text_that_fills_its_bucket_does_not_feel_those_that_do_not(load, name):
    backbone = load(name)
    full, short = "card card card card card card", "card card card"
    assert [backbone.bucket(backbone.prepare(text)) for text in (full, short)] == [(8, True), (8, False)]
    one, other = Record("full", "x", full), Record("short", "x", short)
    assert embedded(backbone, [one, other])["full"] == embedded(backbone, [one])["full"]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_types_and_identity(load, name):
    backbone = load(name)
    part = next(embed(records_for(backbone, 2), backbone))
    assert part.tokens.dtype == np.float16 and part.features.dtype == np.float32
    assert canonical_json(backbone.identity)
    wanted = {"name", "modality", "weights", "preprocessing", "layer", "dtype", "device"}
    assert set(backbone.identity) == wanted and len(backbone.identity["weights"]) == 64


@pytest.mark.parametrize("name", NAMES)
def test_the_caller_keeps_its_threads_and_precision(load, name):
    before = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.backends.cudnn.deterministic
    list(embed(records_for(load(name), 2), load(name)))
    after = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.backends.cudnn.deterministic
    assert after == before


@pytest.mark.parametrize("name", ["lite0-64", "minilm"])
def test_a_payload_of_the_wrong_kind_is_refused(load, name):
    with pytest.raises(InputError, match="must be"):
        load(name).prepare(b"\xff\xd8" if name == "minilm" else "a text")


class Rowwise(Backbone):
    """A network whose bits depend on the row, as a library's kernels may."""

    modality = "text"

    def __init__(self, drift: float) -> None:
        super().__init__("rowwise", weights="0" * 64, layer=-1, device="cpu", dtype="float32")
        self.drift = drift

    @property
    def preprocessing(self):
        return {}

    def prepare(self, payload):
        return np.array([len(payload)], dtype=np.int64)

    def probe(self, bucket):
        return np.array([3], dtype=np.int64)

    def batch_size(self, bucket):
        return 8

    def forward(self, batch):
        out = batch.float() + self.drift * torch.arange(len(batch))[:, None]
        return out[:, None, :], out


@pytest.mark.parametrize(("drift", "rows"), [(0.0, 8), (2.0**-20, 1)])
def test_a_backbone_whose_rows_differ_goes_one_row_at_a_time(drift, rows):
    backbone = Rowwise(drift)
    with exact_numerics():
        assert backbone.rows((1,)) == rows
    records = [Record(str(i), "x", "a" * (i % 3)) for i in range(12)]
    whole = embedded(backbone, records)
    assert whole["0"] == whole["3"] == whole["9"] == embedded(backbone, records[9:10])["9"]
