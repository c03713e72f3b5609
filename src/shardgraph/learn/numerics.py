"""The numerics fingerprint: everything about this machine that can change the last bit of a result.

Numerics of our own: what a caller set for its process must not reach the last bits.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from shardgraph.digest import canonical_json, digest, generator
from shardgraph.errors import ConfigError
from shardgraph.learn.recipe import LINEAR, Recipe
from shardgraph.storage.samples import Samples


@contextmanager
def own_numerics(threads: int = 1) -> Iterator[None]:
    """So many threads, full float32, nothing cast on the way."""
    before, precision, dtype = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.get_default_dtype()
    try:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("highest")
        torch.set_default_dtype(torch.float32)
        with torch.no_grad(), torch.autocast("cpu", enabled=False), denormals():
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(before)


@contextmanager
def denormals() -> Iterator[None]:
    """The smallest numbers count, also where the caller has them flushed to zero."""
    flushed = (torch.tensor(2.0**-140) * 1).item() == 0
    torch.set_flush_denormal(False)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


ALGORITHM = 1  # raise when training would give other bytes
Numerics = dict[str, str]
"""A fingerprint: names and values; equal ones promise equal bytes."""


def fingerprint(device: str = "cpu") -> Numerics:
    """The numerics of this process on a device, "cpu" or "cuda"."""
    return dict(_facts(device))


def fingerprint_digest(value: Numerics) -> str:
    """A short name for a fingerprint."""
    return digest("fingerprint", canonical_json(value))


def difference(ours: Numerics, theirs: Numerics, here: str = "here") -> str:
    """What differs between two fingerprints, in words; `here` says where ours are."""
    names = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
    names = [n for n in names if n != "arithmetic"] or names  # which the others explain
    return "; ".join(f"{n} is {ours.get(n, 'unknown')!r} {here}, was {theirs.get(n, 'unknown')!r}" for n in names)


@lru_cache(maxsize=2)
def _facts(device: str) -> tuple[tuple[str, str], ...]:
    values = {"machine": platform.machine(), "torch": torch.__version__, "numpy": np.__version__}
    values |= {"arithmetic": arithmetic()}
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError("device 'cuda' was asked for, but torch finds no GPU here: choose cpu, or leave it out")
        values |= {"kind": "cuda", "device": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
        values |= {"triton": version("triton"), "path": f"triton-float16/{ALGORITHM}"}
    else:
        values |= {"kind": "cpu", "device": _cpu_model(), "capability": torch.backends.cpu.get_cpu_capability()}
        values |= {"path": f"float32-one-thread/{ALGORITHM}"}
    return tuple(sorted(values.items()))


@lru_cache(maxsize=1)
def arithmetic() -> str:
    """What a small training gives here: libraries choose their instructions by settings that no version tells."""
    from shardgraph.learn.group import train_group  # which computes under the settings above

    rng = generator(0, "arithmetic")
    ids, labels = zip(*((f"{i:02d}", "abc"[i % 3]) for i in range(48)), strict=True)
    tokens, features = rng.standard_normal((48 * 5, 192)), rng.standard_normal((48, 192))
    offsets = np.arange(49, dtype=np.int64) * 5
    samples = Samples(ids, labels, tokens.astype(np.float32), offsets, features.astype(np.float32))
    recipes = (Recipe(epochs=2, projection="random"), replace(LINEAR, epochs=2))
    trained = [train_group("arithmetic", samples, ("a", "b"), recipe, 0).to_bytes() for recipe in recipes]
    return digest("arithmetic", *trained)[:16]


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
