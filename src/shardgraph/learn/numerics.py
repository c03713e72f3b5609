"""Numerics: the settings that training runs under, and the fingerprint of everything else that decides its bytes.

`fixed_numerics` sets what a process can set: threads, precision, dtype. The fingerprint names what it cannot set:
processor, library versions, device, and the result of a small training. Equal fingerprints mean equal bytes.
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

ALGORITHM = 1  # increase when a change to the code changes the bytes of a training
Numerics = dict[str, str]
"""A fingerprint: names and values."""


def fingerprint(device: str = "cpu") -> Numerics:
    """The numerics of this process on a device, "cpu" or "cuda"."""
    return dict(_facts(device))


def fingerprint_digest(value: Numerics) -> str:
    """The digest of a fingerprint."""
    return digest("fingerprint", canonical_json(value))


def difference(ours: Numerics, theirs: Numerics, here: str = "here") -> str:
    """The differences between two fingerprints as text; `here` names the place of `ours`."""
    names = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
    names = [n for n in names if n != "arithmetic"] or names  # it follows from the others
    return "; ".join(f"{n} is {ours.get(n, 'unknown')!r} {here}, was {theirs.get(n, 'unknown')!r}" for n in names)


@lru_cache(maxsize=1)
def arithmetic() -> str:
    """The digest of a small training here: libraries choose instructions by settings that no version shows."""
    from shardgraph.learn.group import train_group  # a cycle: training uses the settings of this module

    rng = generator(0, "arithmetic")
    ids, labels = zip(*((f"{i:02d}", "abc"[i % 3]) for i in range(48)), strict=True)
    tokens, features = rng.standard_normal((48 * 5, 192)), rng.standard_normal((48, 192))
    offsets = np.arange(49, dtype=np.int64) * 5
    samples = Samples(ids, labels, tokens.astype(np.float32), offsets, features.astype(np.float32))
    recipes = (Recipe(epochs=2, projection="random"), replace(LINEAR, epochs=2))
    trained = [train_group("arithmetic", samples, ("a", "b"), recipe, 0).to_bytes() for recipe in recipes]
    return digest("arithmetic", *trained)[:16]


@contextmanager
def fixed_numerics(threads: int = 1) -> Iterator[None]:
    """Run with this number of threads, in full float32 and without autocast; restore the settings afterwards."""
    before, precision, dtype = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.get_default_dtype()
    try:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("highest")
        torch.set_default_dtype(torch.float32)
        with torch.no_grad(), torch.autocast("cpu", enabled=False), keep_denormals():
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(before)


@contextmanager
def keep_denormals() -> Iterator[None]:
    """Compute with denormal numbers, even if the caller's process flushes them to zero; restore that afterwards."""
    flushed = (torch.tensor(2.0**-140) * 1).item() == 0
    torch.set_flush_denormal(False)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


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


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
