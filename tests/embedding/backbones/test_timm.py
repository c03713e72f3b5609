"""Models of timm with weights in a file: no download."""

import pytest
import torch
from safetensors.torch import load_file, save_file

try:
    import timm
except (ImportError, RuntimeError) as problem:  # its torchvision needs the torch that it was built for
    pytest.skip(f"timm cannot be imported beside this torch: {problem}", allow_module_level=True)

from shardgraph.embedding.backbones.registry import backbone_like, load_backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.records import Record
from shardgraph.errors import BackboneError
from shardgraph.storage.samples import concatenate
from tests.cli.conftest import run
from tests.embedding.backbones.payloads import pictures
from tests.forget.intake.test_raw_inputs import pictures as rows
from tests.forget.intake.test_raw_inputs import write

NAMES = ("vit_tiny_patch16_224", "resnet18")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("my timm")
    for name in NAMES:
        torch.manual_seed(0)
        save_file(timm.create_model(name, pretrained=False).state_dict(), folder / f"{name}.safetensors")
    return folder


@pytest.mark.parametrize(
    ("name", "tokens", "features"),
    [("vit_tiny_patch16_224", (197, 192), (192,)), ("resnet18", (49, 512), (512,))],
)
def test_tokens_and_features_are_timms_own_and_feel_no_company(files, name, tokens, features):
    path = files / f"{name}.safetensors"
    backbone = load_backbone(f"timm:{name}", path=path, device="cpu", dtype="float32")
    model = timm.create_model(name, pretrained=False)
    model.load_state_dict(load_file(path))
    model.eval()
    records = [Record(f"s{i}", "x", data) for i, data in enumerate(pictures(3))]
    whole = concatenate(embed(records, backbone))
    assert whole.tokens.shape == (3 * tokens[0], tokens[1]) and whole.features.shape == (3, *features)
    assert concatenate(embed(records[1:2], backbone)).tokens.tobytes() == whole.take([1]).tokens.tobytes()
    pixels = backbone.framing.normalise(torch.from_numpy(backbone.prepare(records[0].payload))[None])
    with torch.inference_mode():
        hidden = model.forward_features(pixels.contiguous())
        wanted = hidden if hidden.ndim == 3 else hidden.flatten(2).transpose(1, 2)
        # 1e-5: other numbers of threads sum in another order
        assert torch.allclose(torch.from_numpy(whole.take([0]).tokens), wanted[0], atol=1e-5)
        pooled = model.forward_head(hidden, pre_logits=True)[0]
        assert torch.allclose(torch.from_numpy(whole.features[0]), pooled, atol=1e-5)
    assert backbone_like(backbone.identity, str(path)).identity == backbone.identity


def test_weights_that_do_not_fit_are_refused(files, tmp_path):
    (tmp_path / "torn.pth").write_bytes(b"torn")
    torch.save({"state_dict": {"conv1.weight": torch.zeros(1)}}, tmp_path / "other.pth")
    for path, told in (
        (files / "vit_tiny_patch16_224.safetensors", "must hold the weights of timm's resnet18"),
        (tmp_path / "other.pth", "must hold the weights of timm's resnet18"),
        (tmp_path / "torn.pth", "must be a readable file"),
        (tmp_path / "gone.safetensors", "must be a readable file"),
    ):
        with pytest.raises(BackboneError, match=told):
            load_backbone("timm:resnet18", path=path, device="cpu")
    with pytest.raises(BackboneError, match="no_such_model"):
        load_backbone("timm:no_such_model", path=files / "resnet18.safetensors", device="cpu")
    with pytest.raises(BackboneError, match="got layer 2"):
        load_backbone("timm:resnet18", path=files / "resnet18.safetensors", layer=2, device="cpu")


def test_the_commands_take_a_name_and_a_file_that_may_move(files, tmp_path):
    ws, table = tmp_path / "ws", write(rows(), tmp_path / "rows")
    path = (tmp_path / "my weights.safetensors").absolute()
    path.write_bytes((files / "resnet18.safetensors").read_bytes())
    how = ("--backbone", "timm:resnet18", "--device", "cpu", "--size", 64)
    assert run("init", ws, *how, "--backbone-path", path).code == 0
    moved = path.rename(tmp_path / "moved.safetensors")
    failed = run("add", ws, table)
    assert failed.code == 1 and str(path) in failed.err
    assert run("add", ws, table, "--backbone-path", moved).code == 0
    assert run("train", ws, "--coarse", 2, "--fine", 1, "--epochs", 1, "--device", "cpu").code == 0
    assert run("predict", ws, table, "--json").json["samples"] == len(rows())
