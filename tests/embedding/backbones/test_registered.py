"""A torch module as a backbone: what it may return, what is refused when it is registered, what its identity holds."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import shardgraph
from shardgraph.embedding.backbones.registered import absolute_function
from shardgraph.embedding.backbones.registry import backbone_like, load_backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.records import Record
from shardgraph.errors import BackboneError, InputError
from shardgraph.storage.samples import concatenate
from tests.embedding.backbones.payloads import pictures, texts


class Patches(nn.Module):
    """A convolution; `then` is what happens to its map."""

    def __init__(self, then=lambda found: found, norm=None) -> None:
        super().__init__()
        self.patches, self.then, self.norm = nn.Conv2d(3, 6, 8, 8), then, norm or nn.Identity()
        generator = torch.Generator().manual_seed(0)
        for weight in self.parameters():
            weight.data = torch.randn(weight.shape, generator=generator) / 10

    def forward(self, pixels):
        return self.then(self.norm(self.patches(pixels)))


class Counting(Patches):
    """A module that keeps state of its passes."""

    passes = 0

    def forward(self, pixels):
        self.passes += 1
        return super().forward(pixels) + self.passes


class Letters(nn.Module):
    """A text model: the mean of the letters' vectors is left to us."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 6)
        self.table.weight.data = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))

    def forward(self, ids):
        return self.table(ids)


def resized(image):
    return torch.from_numpy(np.array(image.resize((32, 32)), np.float32).transpose(2, 0, 1) / 255)


def letters(text):
    return torch.tensor([ord(letter) % 64 for letter in text])


def loaded(module, name="net", **options):
    spec = shardgraph.register_backbone(name, module, resized, device="cpu", **options)
    assert spec == f"registered:{name}"
    return load_backbone(spec, device="cpu", dtype="float32")


@pytest.mark.parametrize(
    ("then", "tokens", "features"),
    [
        (lambda found: found, (16, 6), (6,)),
        (lambda found: found.flatten(2).transpose(1, 2), (16, 6), (6,)),
        (lambda found: found.mean(dim=(2, 3)), (1, 6), (6,)),
        (lambda found: (found, found.flatten(1)), (16, 6), (96,)),
    ],
    ids=["map", "tokens", "features", "both"],
)
def test_a_module_gives_a_map_tokens_features_or_both(then, tokens, features):
    backbone = loaded(Patches(then))
    part = next(embed([Record("s", "x", pictures(1)[0])], backbone))
    assert part.tokens.shape == tokens and part.features.shape == (1, *features)
    with torch.inference_mode():
        wanted = Patches()(resized_of(pictures(1)[0])[None])[0].flatten(1).T.numpy()
    if len(part.tokens) > 1:
        assert np.array_equal(part.tokens, wanted), "a map is read row by row"


def resized_of(data):
    from shardgraph.embedding.backbones.images import decode

    return resized(decode(data))


@pytest.mark.parametrize("rows", [1, 5])
def test_a_sample_has_the_same_bits_whatever_its_company(monkeypatch, rows):
    backbone = loaded(Patches(norm=nn.BatchNorm2d(6)))
    monkeypatch.setattr(backbone, "batch_size", lambda bucket: rows)  # as on a GPU
    records = [Record(f"s{i}", "x", data) for i, data in enumerate(pictures(12))]
    whole = concatenate(embed(records, backbone, chunk=5))
    for i in (0, 5, 11):
        alone = concatenate(embed([records[i]], backbone))
        assert alone.tokens.tobytes() == whole.take([i]).tokens.tobytes()


def test_a_module_may_read_texts_of_any_length():
    spec = shardgraph.register_backbone("letters", Letters(), letters, modality="text", device="cpu")
    backbone = load_backbone(spec, device="cpu")
    records = [Record(f"s{i}", "x", text) for i, text in enumerate(texts(9))]
    found = concatenate(embed(records, backbone))
    assert list(np.diff(found.offsets)) == [len(record.payload) for record in records]
    with pytest.raises(InputError, match="must be a string, got bytes"):
        backbone.prepare(b"x")
    with pytest.raises(InputError, match="must return numbers"):
        backbone.prepare("")


REFUSED = {
    "mean of the batch": (lambda: Patches(lambda x: x - x.mean(0, keepdim=True)), "must not depend on its company"),
    "batch norm of the batch": (
        lambda: Patches(norm=nn.BatchNorm2d(6, track_running_stats=False)),
        "must not depend on its company",
    ),
    "dropout": (lambda: Patches(lambda x: F.dropout(x, 0.5, True)), "change from call to call"),
    "a counter": (Counting, "change from call to call"),
    "a dict": (lambda: Patches(lambda x: {"out": x}), "got dict"),
    "one row": (lambda: Patches(lambda x: x[:1]), r"for n = 4 got \[1, 6, 4, 4\]"),
    "a number": (lambda: Patches(lambda x: x.sum()), r"got \[\]"),
    "infinite": (lambda: Patches(lambda x: x / 0), "must give finite numbers"),
    "a pair of maps": (lambda: Patches(lambda x: (x, x)), r"features \[n, f\]"),
    "another input": (lambda: nn.Linear(5, 2), "must take a batch of shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_the_promise_is_refused_when_it_is_registered(name):
    make, told = REFUSED[name]
    with pytest.raises(BackboneError, match=told):
        shardgraph.register_backbone("refused", make(), resized, device="cpu")
    with pytest.raises(BackboneError, match="must be registered in every process"):
        load_backbone("registered:refused", device="cpu")


def test_transforms_and_names_that_cannot_be_used_are_refused():
    draws = np.random.default_rng(0)
    for name, module, transform, told in (
        ("net", Patches(), lambda image: resized(image) + draws.normal(), "leave random augmentation out"),
        ("net", Patches(), lambda image: "numbers", "must return numbers"),
        ("net", Patches(), lambda image: 1 / 0, "ZeroDivisionError"),
        ("net", Patches(), None, "must be callable"),
        ("net", lambda pixels: pixels, resized, "must be a torch.nn.Module, got function"),
        ("a:b", Patches(), resized, "got 'a:b'"),
        (" ", Patches(), resized, "got ' '"),
    ):
        with pytest.raises(BackboneError, match=told):
            shardgraph.register_backbone(name, module, transform, device="cpu")
    with pytest.raises(BackboneError, match="got 'sound'"):
        shardgraph.register_backbone("net", Patches(), resized, modality="sound")
    for options in ({"layer": 3}, {"size": 32}):
        with pytest.raises(BackboneError, match="leave it out"):
            load_backbone(shardgraph.register_backbone("net", Patches(), resized), device="cpu", **options)


def test_the_identity_holds_weights_transform_and_output():
    def other(image):
        return resized(image.transpose(0))

    first = loaded(Patches()).identity
    assert loaded(Patches()).identity == first and first["name"] == "registered:net"
    changed = Patches()
    changed.patches.weight.data[0, 0, 0, 0] += 1
    for module, transform, differing in (
        (Patches(lambda x: 2 * x), resized, {"probe"}),
        (changed, resized, {"weights", "probe"}),
        (Patches(), other, {"preprocessing", "probe"}),
    ):
        spec = shardgraph.register_backbone("net", module, transform, device="cpu")
        found = load_backbone(spec, device="cpu", dtype="float32").identity
        assert {name for name in first if found[name] != first[name]} == differing
        with pytest.raises(BackboneError, match="other"):
            backbone_like(first)
    loaded(Patches())
    backbone_like(first)


def test_a_module_is_used_as_it_was_when_it_was_registered():
    module = Patches()
    before = loaded(module).identity
    module.patches.weight.data += 1
    assert load_backbone("registered:net", device="cpu", dtype="float32").identity == before
    assert module.training, "the caller's module is left as it is"


def test_functions_are_named_by_module_or_by_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    assert absolute_function("mine:build") == f"python:{tmp_path}/mine:build"
    assert absolute_function("python:mine.py:build") == f"python:{tmp_path}/mine:build"
    assert absolute_function("python:deep er/mine:build") == f"python:{tmp_path}/deep er/mine:build"
    assert absolute_function("python:json.decoder:build") == "python:json.decoder:build", "from the search path"
    assert absolute_function(f"python:{tmp_path}/mine:build") == f"python:{tmp_path}/mine:build"
    for wrong in ("mine", "python:", "python:mine:", "python:mine:1", ":build", "/folder/model"):
        with pytest.raises(BackboneError, match="got"):
            absolute_function(wrong)


def test_functions_that_register_nothing_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = "def nothing(): pass\ndef other(): return 'registered:nobody'\ndef fails(): raise KeyError('k')\nx = 1\n"
    (tmp_path / "odd_model.py").write_text(text)
    for spec, told in (
        ("python:odd_model:nothing", "got None"),
        ("python:odd_model:other", "got 'registered:nobody'"),
        ("python:odd_model:fails", "KeyError"),
        ("python:odd_model:x", "has none called 'x'"),
        ("python:odd_model:gone", "has none called 'gone'"),
        ("python:no_such_model:build", "ModuleNotFoundError"),
    ):
        with pytest.raises(BackboneError, match=told):
            load_backbone(spec, device="cpu")


def test_a_workspace_of_a_registered_backbone(create, tmp_path):
    shardgraph.register_backbone("mine", Patches(), resized, device="cpu")
    workspace = create(backbone="registered:mine")
    assert workspace.config.backbone["probe"] and not (workspace.root / "backbone.json").exists()
    with pytest.raises(BackboneError, match="is not loaded from a path"):
        create("other", backbone="efficientnet-lite0", backbone_path=tmp_path)
