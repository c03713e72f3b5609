"""The numerics of a forward pass, and the versions of the libraries that decode its input."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import torch

_DECODERS = ("pillow", "tokenizers", "transformers")


@contextmanager
def exact_numerics() -> Iterator[None]:
    """Full float32 in one intra-op thread, deterministic cuDNN kernels without benchmarking; restored afterwards.

    These are settings of the process: do not train in other threads at the same time.
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
    """Run the passes of this thread without further threads: the setting is per thread, by default all cores."""
    torch.set_num_threads(1)


def decoders() -> dict[str, str]:
    """The versions of the libraries that turn payloads into the input of a network, if they are installed."""
    found = {}
    for name in _DECODERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
