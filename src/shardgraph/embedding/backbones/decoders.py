"""The one numerical path that embeddings take."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import torch

_DECODERS = ("pillow", "tokenizers", "transformers")


@contextmanager
def exact_numerics() -> Iterator[None]:
    """Full float32 in one intra-op thread, deterministic and unsearched cuDNN kernels; restored afterwards.

    These are settings of the process: do not train in other threads meanwhile.
    """
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("highest")
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)


def one_thread() -> None:
    """Keep this thread's passes in one thread: each thread has its own count, new ones the machine's."""
    torch.set_num_threads(1)


def decoders() -> dict[str, str]:
    """The versions of what turns payloads into a network's input; those that are not installed are left out."""
    found = {}
    for name in _DECODERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
