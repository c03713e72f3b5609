"""Backbones by name. A new one needs a module and a line here."""

from importlib import import_module
from typing import Any

from shardgraph.digest import canonical_json
from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.records import IMAGE, TEXT
from shardgraph.errors import BackboneError

DEFAULTS = {IMAGE: "efficientnet-lite0", TEXT: "minilm"}

# kind -> module and callable, imported when asked for: `transformers` alone takes seconds
_KINDS = {
    "efficientnet-lite0": ("efficientnet_lite", "EfficientNetLite"),
    "efficientnet-lite1": ("efficientnet_lite", "EfficientNetLite"),
    "efficientnet-lite2": ("efficientnet_lite", "EfficientNetLite"),
    "minilm": ("minilm", "MiniLM"),
    "hf": ("hf", "load"),
    "vit": ("vit", "Vit"),
}


def load_backbone(
    spec: str,
    *,
    layer: int | None = None,
    size: int | None = None,
    device: str | None = None,
    dtype: str = "float16",
) -> Backbone:
    """The backbone that `spec` names: "efficientnet-lite0" (1, 2), "minilm", "hf:NAME_OR_PATH", "vit:PATH".

    `layer` is where tokens are taken, `size` the pixels of a square image, `dtype` the tokens' type; each
    has a default that fits the backbone. `device` is the GPU where there is one, else the CPU.
    """
    kind, _, rest = spec.partition(":")
    if kind not in _KINDS or (kind in ("hf", "vit")) != bool(rest):
        known = ", ".join(["precomputed", *names()])
        raise BackboneError(f"a workspace's backbone must be one of {known}, got {spec!r}")
    module, maker = _KINDS[kind]
    try:
        make = getattr(import_module(f"shardgraph.embedding.backbones.{module}"), maker)
    except ImportError as problem:
        raise BackboneError(f"backbone {spec!r} needs a package that is not installed: {problem}") from problem
    backbone: Backbone = make(spec, layer=layer, size=size, device=device, dtype=dtype)
    return backbone


def backbone_like(identity: dict[str, Any]) -> Backbone:
    """The backbone with this identity; an error if the installed one differs."""
    framing = identity["preprocessing"]
    square = framing.get("height") if framing.get("height") == framing.get("width") else None
    options = {"layer": identity["layer"], "device": identity["device"], "dtype": identity["dtype"]}
    found = load_backbone(identity["name"], size=square, **options)
    differs = sorted(n for n in identity if canonical_json(found.identity.get(n)) != canonical_json(identity[n]))
    if differs:
        raise BackboneError(f"backbone {identity['name']} is not the one that this workspace has: other {differs}")
    return found


def names() -> list[str]:
    """The names that `load_backbone` accepts."""
    forms = {"hf": "hf:NAME_OR_PATH", "vit": "vit:PATH"}
    return [forms.get(kind, kind) for kind in _KINDS]
