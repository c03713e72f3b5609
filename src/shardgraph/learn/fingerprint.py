"""The numerics fingerprint: everything about this machine that can change the last bit of a result."""

import platform
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from shardgraph.digest import canonical_json, digest
from shardgraph.learn.group import ALGORITHM


@lru_cache(maxsize=2)
def fingerprint(device: str = "cpu") -> tuple[tuple[str, str], ...]:
    """Sorted (name, value) pairs; equal fingerprints promise equal bytes."""
    values = {
        "device": _cpu_model() if device == "cpu" else torch.cuda.get_device_name(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "path": f"cpu-float32-one-thread/{ALGORITHM}",
    }
    return tuple(sorted(values.items()))


def fingerprint_digest(value: tuple[tuple[str, str], ...]) -> str:
    """A short name for a fingerprint."""
    return digest("fingerprint", canonical_json(dict(value)))


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """What differs between two fingerprints, in words."""
    names = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
    return "; ".join(f"{n} is {ours.get(n, 'unknown')!r} here, was {theirs.get(n, 'unknown')!r}" for n in names)


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
