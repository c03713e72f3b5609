"""Small networks, saved as files: every backbone is loaded by its real code."""

import pytest
import torch
from safetensors.torch import save_file

from tests.embedding.backbones.payloads import texts


@pytest.fixture(scope="session")
def vit_config():
    from transformers import ViTConfig

    return ViTConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=80, image_size=32, patch_size=8,
        layer_norm_eps=1e-6,
    )  # fmt: skip


@pytest.fixture(scope="session")
def hf_vit_folder(vit_config, tmp_path_factory):
    """A small random ViT of `transformers`, with preprocessing of its own."""
    from transformers import ViTImageProcessorPil, ViTModel

    folder = tmp_path_factory.mktemp("hf_vit")
    torch.manual_seed(0)
    model = ViTModel(vit_config, add_pooling_layer=False)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def hf_bert_folder(tmp_path_factory):
    """A small random BERT of `transformers` with a tokenizer of a few words."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("hf_bert")
    words = sorted(set(" ".join(texts(40)).split()))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=20, num_hidden_layers=3, num_attention_heads=2, intermediate_size=44,
        max_position_embeddings=40,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def vit_file(hf_vit_folder, tmp_path_factory):
    """The same ViT in timm's key names; two heads of 16 numbers, which only the metadata can say."""
    from transformers import ViTModel

    weights = ViTModel.from_pretrained(hf_vit_folder, add_pooling_layer=False).state_dict()
    path = tmp_path_factory.mktemp("vit") / "tiny.safetensors"
    save_file(in_timm_names(weights), path, {"num_heads": "2"})
    return path


def in_timm_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    names = {
        "embeddings.cls_token": "cls_token",
        "embeddings.position_embeddings": "pos_embed",
        "embeddings.patch_embeddings.projection": "patch_embed.proj",
        "layers.": "blocks.",
        "attention.o_proj": "attn.proj",
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "layernorm": "norm",
    }
    out: dict[str, torch.Tensor] = {}
    for key, tensor in weights.items():
        if "k_proj" in key or "v_proj" in key:
            continue
        if "q_proj" in key:
            tensor = torch.cat([weights[key.replace("q_proj", f"{part}_proj")] for part in "qkv"])
            key = key.replace("attention.q_proj", "attn.qkv")
        for old, new in names.items():
            key = key.replace(old, new)
        out[key] = tensor.contiguous()
    return out


@pytest.fixture(scope="session")
def load(hf_vit_folder, hf_bert_folder, vit_file):
    """A backbone by a short name, each loaded once."""
    from shardgraph.embedding.backbones.registry import load_backbone

    specs = {
        "lite0": ("efficientnet-lite0", {}),
        "lite0-64": ("efficientnet-lite0", {"size": 64}),
        "minilm": ("minilm", {}),
        "hf-vit": (f"hf:{hf_vit_folder}", {}),
        "hf-bert": (f"hf:{hf_bert_folder}", {}),
        "vit": (f"vit:{vit_file}", {}),
    }
    loaded = {}

    def get(name: str, device: str = "cpu"):
        if (name, device) not in loaded:
            spec, options = specs[name]
            loaded[name, device] = load_backbone(spec, device=device, **options)
        return loaded[name, device]

    return get
