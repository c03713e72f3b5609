"""Backbones: frozen pretrained networks that turn a payload into tokens and features.

registry            load_backbone: backbones by name
base                Backbone: what each one guarantees, and how passes are batched
vision, text        what image and text backbones share: framing, token ids, masks
images              decoding of image files
decoders            numerics of a pass; versions of the decoding libraries
packaged            weights that are installed by pip, checked by digest
efficientnet_lite   efficientnet-lite0, -lite1, -lite2 (default for images)
minilm              all-MiniLM-L6-v2 (default for text)
vit                 vit:PATH, a Vision Transformer in timm's format
hf                  hf:NAME_OR_PATH, a model of `transformers`
"""
