"""registered:NAME: any torch module with a transform, and python:MODULE:FUNCTION, a function that registers one.

The protocol:

    transform(payload)   a PIL image in RGB, or a string -> a tensor (or array) without a batch dimension
    module(batch)        stacked tensors of one shape [n, ...] -> features [n, f], tokens [n, t, d], a map [n, d, h, w],
                         or a pair (tokens or map, features)

Features alone count as one token; without features, the mean of the tokens is taken. The module runs in evaluation mode
as it was when it was registered: later changes of it have no effect.

Registering checks what the promise of `base` needs: the same payload gives the same bits each time, whatever stands
beside it in a batch. Weights say nothing about `forward`, so the identity also holds the bits of the output on fixed
payloads. These depend on the machine, as every embedding does; on a machine with other numerics the workspace refuses
the backbone.
"""

import copy
import importlib
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor, nn

from shardgraph.digest import digest
from shardgraph.embedding.backbones import images
from shardgraph.embedding.backbones.base import Backbone, Bucket
from shardgraph.embedding.backbones.decoders import exact_numerics
from shardgraph.embedding.backbones.packaged import tensors_digest
from shardgraph.embedding.records import IMAGE, TEXT, Payload
from shardgraph.errors import BackboneError, InputError, check_text

KIND = "registered:"
COMPANY = 4  # rows of the batches in which a sample must keep its bits
_SIZES = ((320, 240), (150, 210), (256, 256))  # of the images that are tried
_TEXTS = ("Ça va? The 2 QUICK foxes jump over 東京's e-mail: a_b@c.d (#42).", "card", "where is my card " * 20)
Transform = Callable[[Any], Any]


@dataclass(frozen=True)
class _Entry:
    module: nn.Module
    transform: Transform
    modality: str


_ENTRIES: dict[str, _Entry] = {}


def register_backbone(
    name: str, module: nn.Module, transform: Transform, *, modality: str = IMAGE, device: str | None = None
) -> str:
    """Make a torch module a backbone of this process, `registered:NAME`, and return that spec.

    `transform` turns one payload (a PIL image in RGB, or a string if `modality` is "text") into a tensor without a
    batch dimension. `module` takes a batch of them and returns features [n, f], tokens [n, t, d], a map [n, d, h, w],
    or a pair of tokens and features. An error if the bits of a sample depend on its company in a batch, or change from
    call to call. `device` is where this is tried: by default the GPU if there is one.

    A workspace that is made with it needs it registered again in every process that embeds; on the command line,
    `--backbone-path python:MODULE:FUNCTION` names a function that does so and returns what this function returns.
    """
    if not isinstance(name, str) or not name.strip() or any(c in name for c in ":\n"):
        raise BackboneError(f"a backbone must be registered under a name without colons, got {name!r}")
    check_text((name,), "the name of a backbone")
    if not isinstance(module, nn.Module):
        raise BackboneError(f"backbone {name!r} must be a torch.nn.Module, got {type(module).__name__}")
    if not callable(transform):
        raise BackboneError(f"the transform of backbone {name!r} must be callable, got {type(transform).__name__}")
    if modality not in (IMAGE, TEXT):
        raise BackboneError(f"the modality of backbone {name!r} must be 'image' or 'text', got {modality!r}")
    try:
        frozen = copy.deepcopy(module).eval().requires_grad_(False).cpu()
    except Exception as problem:  # whatever a module's own __deepcopy__ raises
        raise BackboneError(f"backbone {name!r} must be a module that can be copied, got {problem}") from problem
    entry = _Entry(frozen, transform, modality)
    ModuleBackbone(KIND + name, entry, layer=None, size=None, device=device, dtype="float32")
    _ENTRIES[name] = entry
    return KIND + name


def is_known(spec: str) -> bool:
    """Whether this process has registered the backbone `registered:NAME`."""
    return spec.removeprefix(KIND) in _ENTRIES


def load(spec: str, *, location: str | None = None, **options: Any) -> "ModuleBackbone":
    """`registered:NAME`; with a location, the function there registers it first."""
    name = spec.removeprefix(KIND)
    if location is not None and (made := _call(location)) != spec:
        raise BackboneError(f"'{location}' must register the backbone {name!r}, it registered {made!r}")
    if name not in _ENTRIES:
        raise BackboneError(
            f"backbone {name!r} must be registered in every process that uses it: call shardgraph.register_backbone, or"
            " name a function that does so with --backbone-path python:MODULE:FUNCTION or SHARDGRAPH_BACKBONE"
        )
    return ModuleBackbone(spec, _ENTRIES[name], **options)


def load_function(spec: str, **options: Any) -> "ModuleBackbone":
    """`python:[FOLDER/]MODULE:FUNCTION`: the backbone that this function registers."""
    return load(_call(spec), **options)


def absolute_function(location: str) -> str:
    """python:[FOLDER/]MODULE:FUNCTION, with the absolute folder if the module lies in one or in the current one."""
    folder, module, function = _parts(location)
    here, top = Path.cwd(), module.partition(".")[0]
    if not folder and ((here / f"{top}.py").is_file() or (here / top).is_dir()):
        folder = str(here)
    place = f"{Path(folder).expanduser().absolute()}/" if folder else ""
    return f"python:{place}{module}:{function}"


class ModuleBackbone(Backbone):
    """A registered module; samples with tensors of one shape share a bucket."""

    concurrent = False  # nobody knows whether a module may run in several threads

    def __init__(
        self, name: str, entry: _Entry, *, layer: int | None, size: int | None, device: str | None, dtype: str
    ) -> None:
        given = {"layer": layer if layer != -1 else None, "size": size}
        if odd := sorted(option for option, value in given.items() if value is not None):
            raise BackboneError(f"{name} decides about {odd[0]} itself, got {given[odd[0]]}: leave it out")
        self.modality, self._transform, self._lock = entry.modality, entry.transform, threading.Lock()
        state = {key: value for key, value in entry.module.state_dict().items() if isinstance(value, Tensor)}
        super().__init__(name, weights=tensors_digest(b"", state), layer=-1, device=device, dtype=dtype)
        cpu = self.device.type == "cpu"
        self.module = entry.module if cpu else copy.deepcopy(entry.module).to(self.device)
        with exact_numerics():
            self._probes = [self._tried(payload) for payload in _payloads(self.modality)]
            self._outputs = [self._checked(probe) for probe in self._probes]

    @property
    def identity(self) -> dict[str, Any]:
        """As for every backbone; also a digest of the output on fixed payloads."""
        return super().identity | {"probe": digest(*self._outputs)}

    @property
    def preprocessing(self) -> dict[str, Any]:
        decoding = {"decoding": images.DECODING} if self.modality == IMAGE else {}
        inputs = [part for probe in self._probes for part in (str(probe.dtype), str(probe.shape), probe.tobytes())]
        return decoding | {"transform": digest(*inputs)}

    def prepare(self, payload: Payload) -> np.ndarray:
        if self.modality == IMAGE:
            return self._transformed(images.decode(payload))
        if not isinstance(payload, str):
            raise InputError(f"a text must be a string, got {type(payload).__name__ if payload else 'none'}")
        return self._transformed(payload)

    def bucket(self, prepared: np.ndarray) -> Bucket:
        return (*prepared.shape, prepared.dtype.str)

    def probe(self, bucket: Bucket) -> np.ndarray:
        """Numbers that the transform made of a payload, in the shape of the bucket."""
        return np.resize(self._probes[0], bucket[:-1]).astype(bucket[-1])

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        try:
            out = self.module(batch)
        except Exception as problem:  # a module may raise anything
            raise BackboneError(
                f"{self.name} must take a batch of shape {list(batch.shape)}, got {type(problem).__name__}: {problem}"
            ) from problem
        tokens, features = out if isinstance(out, tuple | list) and len(out) == 2 else (out, None)
        if not isinstance(tokens, Tensor) or tokens.ndim not in (2, 3, 4) or len(tokens) != len(batch):
            found = list(tokens.shape) if isinstance(tokens, Tensor) else type(tokens).__name__
            raise BackboneError(
                f"{self.name} must return features [n, f], tokens [n, t, d] or a map [n, d, h, w], or a pair of tokens"
                f" and features; for n = {len(batch)} got {found}"
            )
        if tokens.ndim == 4:
            tokens = tokens.permute(0, 2, 3, 1).flatten(1, 2)
        if tokens.ndim == 2:
            tokens = tokens[:, None]
        features = tokens.mean(dim=1) if features is None else features
        if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != len(batch):
            found = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise BackboneError(f"{self.name} must return features [n, f], for n = {len(batch)} got {found}")
        return tokens, features

    def _transformed(self, payload: Any) -> np.ndarray:
        try:
            with self._lock:
                out = self._transform(payload)
            made = out.detach().cpu().numpy() if isinstance(out, Tensor) else np.asarray(out)
        except Exception as problem:  # a transform may raise anything
            reason = f"{type(problem).__name__}: {problem}"
            raise InputError(f"the transform of {self.name} must take every {self.modality}, got {reason}") from problem
        if made.dtype.kind not in "fiub" or not made.size:
            raise InputError(f"the transform of {self.name} must return numbers, got {made.dtype} {list(made.shape)}")
        return np.ascontiguousarray(made)

    def _tried(self, payload: Any) -> np.ndarray:
        """What the transform makes of a payload; an error if it makes something else the next time."""
        try:
            once, again = self._transformed(copy.copy(payload)), self._transformed(copy.copy(payload))
        except InputError as problem:
            raise BackboneError(str(problem)) from problem
        if self.bucket(once) != self.bucket(again) or once.tobytes() != again.tobytes():
            raise BackboneError(
                f"the transform of {self.name} must give the same numbers each time, it gives others when it is called"
                " again: leave random augmentation out"
            )
        return once

    def _checked(self, sample: np.ndarray) -> bytes:
        """The bits of a sample's output; an error if they depend on earlier calls or on the company in a batch."""
        alone = self._bits([sample], 0)
        self._check_same(alone, self._bits([sample], 0))
        flipped = np.ascontiguousarray(sample.reshape(-1)[::-1].reshape(sample.shape))
        plain = np.full_like(sample, sample.flat[0])
        companies = [[other] * (COMPANY - 1) for other in (sample, flipped, plain)]
        first = {self._bits([sample, *company], 0) for company in companies}
        last = {self._bits([*company, sample], COMPANY - 1) for company in companies}
        if len(first) > 1 or len(last) > 1:
            raise BackboneError(
                f"the output of {self.name} for a sample must not depend on its company: its bits change with the other"
                f" rows of a batch of {COMPANY}; use no statistics of the batch (a BatchNorm without running"
                " statistics, a mean over the first dimension)"
            )
        self._check_same(alone, self._bits([sample], 0))
        return alone

    def _check_same(self, once: bytes, again: bytes) -> None:
        if once != again:
            raise BackboneError(
                f"the output of {self.name} for a sample must be the same each time, its bits change from call to call:"
                " use no randomness (dropout) and no state that a pass changes"
            )

    def _bits(self, batch: list[np.ndarray], row: int) -> bytes:
        tokens, features = self._pass(batch)
        if not (np.isfinite(tokens).all() and np.isfinite(features).all()):
            raise BackboneError(f"{self.name} must give finite numbers of type {self.dtype}, got others")
        shapes = repr((tokens.shape[1:], features.shape[1:])).encode()
        return b"".join((shapes, tokens[row].tobytes(), features[row].tobytes()))


def _payloads(modality: str) -> list[Any]:
    """The payloads that a module is tried on, the same each time."""
    if modality == TEXT:
        return list(_TEXTS)
    numbers = np.random.Generator(np.random.Philox(key=7))
    made = []
    for width, height in _SIZES:
        coarse = Image.fromarray(numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        made.append(coarse.resize((width, height), Image.Resampling.NEAREST))
    return made


def _parts(location: str) -> tuple[str, str, str]:
    """Folder ("" if there is none), dotted name of the module, and function."""
    target, _, function = location.removeprefix("python:").rpartition(":")
    folder, slash, module = target.rpartition("/")
    module = module.removesuffix(".py")
    if not module or not function.isidentifier():
        raise BackboneError(
            f"a registered backbone is loaded by a function, python:MODULE:FUNCTION or python:FOLDER/MODULE:FUNCTION,"
            f" got {location!r}"
        )
    return folder or slash, module, function


def _call(location: str) -> str:
    """Call the function that registers a backbone, and return the spec that it returns."""
    folder, module, function = _parts(location)
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    except Exception as problem:  # a module's own code may raise anything
        reason = f"{type(problem).__name__}: {problem}"
        raise BackboneError(f"'{location}' must be a function that can be imported, got {reason}") from problem
    file = getattr(found, "__file__", None) or ""
    if folder and file and not Path(file).resolve().is_relative_to(Path(folder).resolve()):
        raise BackboneError(f"module {module!r} must be loaded from '{folder}', this process has it from '{file}'")
    register = getattr(found, function, None)
    if not callable(register):
        raise BackboneError(f"'{location}' must be a function, module {module!r} has none called {function!r}")
    try:
        spec = register()
    except BackboneError:
        raise
    except Exception as problem:  # the same
        reason = f"{type(problem).__name__}: {problem}"
        raise BackboneError(f"'{location}' must register a backbone, it failed with {reason}") from problem
    if not isinstance(spec, str) or not spec.startswith(KIND) or spec.removeprefix(KIND) not in _ENTRIES:
        raise BackboneError(f"'{location}' must return what register_backbone returned, got {spec!r}")
    return spec
