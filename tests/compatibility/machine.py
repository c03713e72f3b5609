"""What numerics this machine has, found without the package: its own fingerprint changes with its own code.

The package's fingerprint holds the result of a small training. Were tables compared under equal fingerprints alone,
code that trains otherwise would have another fingerprint and never be compared.
"""

import hashlib
import platform
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from tests.compatibility.samples import values


@cache
def machine() -> dict[str, str]:
    """The processor, the versions of the libraries, and the digest of some arithmetic."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "arithmetic": _arithmetic(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _arithmetic() -> str:
    """The digest of what training and prototypes are made of: products, norms, exponentials, steps, eigenvalues."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = [part for dim in (8, 72, 192) for part in _trained(dim)]
        square = torch.from_numpy(values("square", 72, 72)).double()
        found += torch.linalg.eigh(square @ square.T)
        raw = [part.detach().numpy().tobytes() for part in found]
        raw.append(np.exp(values("numpy", 999)).sum(dtype=np.float64).tobytes())
        return hashlib.sha256(b"".join(raw)).hexdigest()[:16]
    finally:
        torch.set_num_threads(threads)


def _trained(dim: int) -> list[torch.Tensor]:
    """A query and a head after three steps of AdamW, and the scores before."""
    tokens = torch.from_numpy(values("tokens", 24, 5, dim))
    query, head = (torch.from_numpy(values(name, 4, dim).copy()).requires_grad_() for name in ("query", "head"))
    optimiser = torch.optim.AdamW([query, head], lr=0.01)
    labels = torch.arange(24) % 4
    scores = []
    for _ in range(3):
        keys = functional.layer_norm(tokens, (dim,))
        weights = torch.softmax(torch.einsum("ntd,kd->nkt", keys, query) / dim**0.5, dim=-1)
        pooled = functional.normalize(torch.einsum("nkt,ntd->nkd", weights, keys), dim=-1)
        logits = (pooled * head).sum(-1)
        scores.append(logits)
        optimiser.zero_grad()
        functional.cross_entropy(logits, labels).backward()
        optimiser.step()
    return [query, head, *scores]
