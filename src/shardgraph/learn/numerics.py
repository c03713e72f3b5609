"""Numerics of our own: what a caller set for its process must not reach the last bits."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
