import itertools
import threading

import numpy as np
import pytest

from shardgraph.embedding.backbones.registry import load_backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.records import Record, content_id
from shardgraph.errors import BackboneError, InputError
from shardgraph.storage.samples import check, concatenate
from tests.embedding.backbones.payloads import pictures


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0", size=64, device="cpu")


@pytest.fixture(scope="module")
def records():
    kinds = itertools.cycle([("train", "a"), ("test", "b"), ("train", "c")])
    return [
        Record(f"s{i}", f"class {i % 3}", data, source=f"source {i % 2}", subject=f"subject {i}", split=next(kinds)[0])
        for i, data in enumerate(pictures(20))
    ]


def test_samples_come_in_the_order_of_the_records_with_all_they_say(backbone, records):
    parts = list(embed(iter(records), backbone, chunk=8))
    samples = check(concatenate(parts))
    assert [len(part) for part in parts] == [8, 8, 4]
    assert samples.tokens.shape == (20 * 4, 320) and samples.features.shape == (20, 1280)
    for name in ("id", "label", "source", "subject", "split"):
        assert getattr(samples, f"{name}s") == tuple(getattr(record, name) for record in records)


def test_a_killed_run_continues_to_the_same_bits(backbone, records):
    whole = concatenate(embed(records, backbone, chunk=6))
    run = embed(records, backbone, chunk=6)
    first = next(run)
    run.close()
    rest = concatenate([first, *embed((r for r in records if r.id not in first.ids), backbone, chunk=5)])
    assert rest.ids == whole.ids
    assert rest.tokens.tobytes() == whole.tokens.tobytes()
    assert rest.features.tobytes() == whole.features.tobytes()


def test_a_run_that_is_left_early_leaves_no_threads(backbone, records):
    before = threading.active_count()
    run = embed(records, backbone, chunk=2)
    next(run)
    assert threading.active_count() > before
    run.close()
    assert threading.active_count() == before


def test_records_are_drawn_lazily(backbone, records):
    drawn = []

    def endless():
        for i in itertools.count():
            drawn.append(i)
            yield Record(f"e{i}", "x", records[i % 20].payload)

    run = embed(endless(), backbone, chunk=4)
    next(run)
    run.close()
    assert len(drawn) == 12, "three parts are under way when the first comes out"


def _with_bad(records):
    broken = [Record("torn", "x", records[0].payload[:200]), Record("empty", "x", b"")]
    return [records[0], broken[0], *records[1:5], broken[1], records[5]]


def test_unreadable_samples_are_all_named_after_the_good_ones(backbone, records):
    run, good = embed(_with_bad(records), backbone, chunk=3), []
    with pytest.raises(InputError, match="'torn', 'empty' cannot be read") as problem:
        good.extend(run)
    assert problem.value.ids == ("torn", "empty")
    assert concatenate(good).ids == tuple(record.id for record in records[:6])


def test_unreadable_samples_are_skipped_when_asked_and_reported(backbone, records):
    reasons, done = {}, []
    run = embed(
        _with_bad(records), backbone, chunk=3, skip_bad=True, on_bad=reasons.__setitem__, on_progress=done.append
    )
    samples, clean = concatenate(run), concatenate(embed(records[:6], backbone))
    assert samples.ids == clean.ids and samples.tokens.tobytes() == clean.tokens.tobytes()
    assert set(reasons) == {"torn", "empty"} and all("image" in reason for reason in reasons.values())
    assert sum(done) == 8


def test_a_part_without_a_readable_sample_is_passed_over(backbone, records):
    bad = [Record(f"bad{i}", "x", b"?") for i in range(4)]
    assert [part.ids for part in embed([*bad, records[0]], backbone, chunk=4, skip_bad=True)] == [("s0",)]
    assert list(embed([], backbone)) == []


def test_what_breaks_in_the_network_is_not_taken_for_a_bad_sample(backbone, records, monkeypatch):
    def broken(pixels):
        raise BackboneError("out of memory")

    monkeypatch.setattr(backbone, "embed_pixels", broken)
    with pytest.raises(BackboneError, match="out of memory"):
        list(embed(records, backbone, skip_bad=True))


def test_equal_content_has_equal_ids_and_embeddings(backbone, records, tmp_path):
    path = tmp_path / "copy.jpg"
    path.write_bytes(records[3].payload)
    assert content_id(path) == content_id(records[3].payload)
    assert content_id("é") == "sha256:4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    pair = concatenate(embed([records[3], Record("copy", "x", path)], backbone))
    assert np.array_equal(*pair.features) and np.array_equal(*np.split(pair.tokens, 2))


@pytest.mark.parametrize("fields", [{"id": ""}, {"label": ""}, {"split": "validation"}])
def test_a_record_must_have_an_id_a_label_and_a_split_we_know(fields):
    with pytest.raises(InputError, match="must"):
        Record(**({"id": "i", "label": "l", "payload": b""} | fields))


@pytest.mark.parametrize("name", ["id", "label", "source", "subject", "payload"])
def test_a_record_in_half_characters_is_refused(name):
    with pytest.raises(InputError, match="must be valid text"):
        Record(**{"id": "a", "label": "x", "payload": "a text", name: "a\ud800"})
