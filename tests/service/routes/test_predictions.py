"""Predictions over HTTP: whatever way they are sent, the same answer; what cannot be read is refused."""

import io
import time
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save

from shardgraph.forget.workspace import Workspace
from tests.service.conftest import running
from tests.strategies import ROWS, embed

QUERIES = embed(ROWS[24:])


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def header_alone(name, shape):
    """An archive with an array of this shape, and none of its numbers."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed, packed.open(f"{name}.npy", "w") as part:
        np.lib.format.write_array_header_1_0(part, {"descr": "<f2", "fortran_order": False, "shape": shape})
    return file.getvalue()


def flipped(raw, local, central):
    """The archive with a bit changed at these places of its first file's two headers."""
    found = bytearray(raw)
    for mark, place in ((b"PK\3\4", local), (b"PK\1\2", central)):
        found[raw.index(mark) + place] ^= 1
    return bytes(found)


def features():
    return np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)


def test_numbers_npz_and_safetensors_give_the_answer_of_the_library(shared_service):
    X = features()
    sent = [
        shared_service("POST", "/predictions", json={"features": X.tolist(), "top": 4}),
        shared_service("POST", "/predictions/arrays", params={"top": 4}, content=npz(features=X)),
        shared_service("POST", "/predictions/arrays", params={"top": 4}, content=save({"features": X})),
        shared_service("POST", "/predictions", json={"tokens": X[:, None].tolist(), "features": X.tolist(), "top": 4}),
    ]
    assert [answer.status_code for answer in sent] == [200] * 4
    answers = [answer.json()["predictions"] for answer in sent]
    assert all(answer == answers[0] for answer in answers)
    with Workspace(shared_service.root) as workspace:
        from shardgraph.embedding.readers.arrays import samples_from

        scores = workspace.scores(samples_from({"features": X}))
        classes = workspace.model().classes
    for row, answer in zip(scores, answers[0], strict=True):
        found = {one["label"]: one["score"] for one in answer["top"]}
        assert found == {name: float(score) for name, score in zip(classes, row, strict=True)}
        ordered = [one["score"] for one in answer["top"]]
        assert ordered == sorted(ordered, reverse=True)


def test_top_names_that_many_and_no_more_than_there_are(shared_service):
    for top, wanted in ((1, 1), (3, 3), (1000, 4)):
        answer = shared_service("POST", "/predictions", json={"features": features()[:1].tolist(), "top": top}).json()
        assert len(answer["predictions"][0]["top"]) == wanted


BAD = [
    {"features": [[1.0] * 7]},
    {"features": [[1.0] * 8, [1.0]]},
    {"features": []},
    {},
    {"features": [[float("1e300")] * 8]},
    {"features": [["x"] * 8]},
    {"tokens": [[1.0]]},
    {"features": [[1.0] * 8], "top": 0},
    {"features": [[1.0] * 8], "more": 1},
]


@pytest.mark.parametrize("body", BAD, ids=str)
def test_numbers_that_make_no_sense_are_refused(shared_service, body):
    assert shared_service("POST", "/predictions", json=body).status_code == 422


def test_not_a_number_is_refused(shared_service):
    body = b'{"features": [[NaN, 1, 1, 1, 1, 1, 1, 1]]}'
    assert shared_service("POST", "/predictions", content=body).status_code == 422


def bomb():
    """A small archive that unpacks to half a gigabyte."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed, packed.open("features.npy", "w") as part:
        for _ in range(512):
            part.write(bytes(1 << 20))
    return file.getvalue()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"PK",
        b"PK\3\4 and no more",
        b"\0" * 8,
        b"\xff" * 100,
        npz(features=np.array([["a"]])),
        npz(x=np.zeros(3)),
        npz(features=np.ones((1, 8)), ids=np.array([b"\xff"])),
        npz(features=np.float32(1)),
        npz(tokens=np.float32(1)),
        npz(tokens=np.ones((1, 1, 8)), mask=np.int64(1)),
        header_alone("mask", (1, 10**13)),
        flipped(npz(features=np.ones((1, 8))), 6, 8),
    ],
    ids=[
        *("empty", "two", "torn", "zeros", "noise", "strings", "nothing", "an id", "a number", "a token", "a mask"),
        *("all promise", "encrypted"),
    ],
)
def test_array_files_that_make_no_sense_are_refused(shared_service, raw):
    assert shared_service("POST", "/predictions/arrays", content=raw).status_code == 422


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(shared_service):
    raw = bomb()
    assert len(raw) < 1 << 20
    answer = shared_service("POST", "/predictions/arrays", content=raw)
    assert answer.status_code == 422 and "unpacked" in answer.json()["error"]


@pytest.mark.parametrize(
    ("shape", "says"),
    [((1, 1_000_000, 8), "a sample must have at most 4,096"), ((4096, 17, 8), "at most 65,536 tokens")],
)
@pytest.mark.parametrize("pack", [npz, lambda **arrays: save(arrays)], ids=["npz", "safetensors"])
def test_more_tokens_than_a_call_may_have_are_refused_at_once(shared_service, shape, says, pack):
    raw, start = pack(tokens=np.zeros(shape, np.float16)), time.perf_counter()
    answer = shared_service("POST", "/predictions/arrays", content=raw)
    assert answer.status_code == 422 and says in answer.json()["error"]
    assert time.perf_counter() - start < 2


def test_too_many_tokens_are_refused_before_they_are_unpacked(shared_service):
    raw = flipped(npz(tokens=np.zeros((4096, 17, 8), np.float16)), 14, 16)  # its check sum is wrong at the end
    answer = shared_service("POST", "/predictions/arrays", content=raw)
    assert answer.status_code == 422 and "65,536 tokens" in answer.json()["error"]


def test_an_array_behind_another_of_the_same_name_is_looked_at_too(shared_service):
    file, small = io.BytesIO(), npz(tokens=np.zeros((1, 1, 8), np.float16))
    with zipfile.ZipFile(io.BytesIO(npz(tokens=np.zeros((1, 5000, 8), np.float16)))) as found:
        large = found.read("tokens.npy")
    with zipfile.ZipFile(file, "w") as packed, zipfile.ZipFile(io.BytesIO(small)) as found:
        packed.writestr("tokens", large)
        packed.writestr("tokens.npy", found.read("tokens.npy"))
    answer = shared_service("POST", "/predictions/arrays", content=file.getvalue())
    assert answer.status_code == 422 and "4,096 tokens" in answer.json()["error"]


MANY = 1_000_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predictions", b'{"features": [[%s]]}' % b",".join([b'"a"'] * MANY)),
        ("/predictions", b'{"features": [%s]}' % b",".join([b'"a"'] * MANY)),
        ("/predictions", b'{"tokens": [[[%s]]]}' % b",".join([b'"a"'] * MANY)),
        ("/predictions", b'{"tokens": [[%s]]}' % b",".join([b'"a"'] * MANY)),
        ("/predictions/texts", b'{"texts": [%s]}' % b",".join([b"1"] * MANY)),
        ("/requests/preview", b'{"samples": [%s]}' % b",".join([b"1"] * MANY)),
        ("/requests/preview", b"{%s}" % b",".join(b'"%d":1' % i for i in range(390_000))),
    ],
    ids=["features", "samples", "tokens", "token lists", "texts", "names", "keys"],
)
def test_a_body_with_a_million_errors_is_refused_for_the_first(shared_service, path, body):
    assert len(body) < 4 << 20
    start = time.perf_counter()
    answer = shared_service("POST", path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and len(answer.text) < 500
    assert time.perf_counter() - start < 3, "all that takes time is to read the JSON"


def test_without_a_model_it_says_what_to_do(fast_path):
    Workspace.create(fast_path / "ws", seed=0).close()
    with running(fast_path / "ws", until="/health") as service:
        answer = service("POST", "/predictions", json={"features": [[1.0] * 8]})
    assert answer.status_code == 409 and "no model yet" in answer.json()["error"] and "train" in answer.json()["error"]


def test_a_pickle_is_not_loaded(shared_service):
    raw = npz(features=np.array([{}], dtype=object))
    assert "pickled" in shared_service("POST", "/predictions/arrays", content=raw).json()["error"]


def test_a_workspace_of_embeddings_takes_no_images_and_no_texts(shared_service):
    assert shared_service("POST", "/predictions/texts", json={"texts": ["a"]}).status_code == 422
    assert shared_service("POST", "/predictions/images", files={"files": b"a"}).status_code == 422


def test_the_same_embedding_may_be_asked_twice(shared_service):
    twice = np.repeat(features()[:1], 3, axis=0)
    found = shared_service("POST", "/predictions", json={"features": twice.tolist()}).json()["predictions"]
    assert len(found) == 3 and found[0] == found[1] == found[2]
    assert shared_service("POST", "/predictions/arrays", content=npz(features=twice)).json()["predictions"] == found
