"""Backbones: frozen pretrained networks that turn a payload into tokens and features.

Modules:

    registry            load_backbone: backbones by name; where they are loaded from
    base                Backbone: what each one guarantees, and how passes are batched
    vision, text        what image and text backbones share: framing, token ids, masks
    images              decoding of image files
    decoders            numerics of a pass; versions of the decoding libraries
    packaged            digests of weights; weights that are installed by pip
    efficientnet_lite   efficientnet-lite0, -lite1, -lite2 (default for images)
    minilm              all-MiniLM-L6-v2 (default for text)
    vit                 vit:PATH, a Vision Transformer in timm's format
    hf                  hf:NAME_OR_PATH, a model of `transformers`
    timm                timm:NAME, a model of `timm`
    registered          register_backbone: any torch module with a transform; python:MODULE:FUNCTION
"""
