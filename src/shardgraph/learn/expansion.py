"""Random features of the tokens, reproducible to the bit: what second-order prototypes see beside the pooled features.

    psi(z)_j = sqrt(10^-3 + mean over tokens t of relu(r_j . LN(z_t) / sqrt(D) - 1)),   r_j random signs, fixed for ever

A feature counts how often, and how strongly, tokens point its way; of what is counted the root tells more. LN(z_t) is
rounded to multiples of 2^-8 first. Products of such integers with signs stay below 2^24, where float32 is exact, so
their sums are the same in any order, in any company, with any number of threads; root and quotient are IEEE's own.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from shardgraph.data.samples import Samples
from shardgraph.digest import generator
from shardgraph.learn.numerics import own_numerics

STEPS = 2**8  # per unit of a normalised token
TOKENS = 2**14  # rows of one product; bounds memory, changes no bit
FLOOR = 1e-3  # under the root: whether a token in a thousand points that way is chance
FEW = 2**10  # tokens that one thread is enough for: on a busy machine two would wait far longer than they work
MOST = 3072  # features, however wide the tokens are: their products are kept, and solved for at every build


def width(dim: int, expansion: int) -> int:
    """How many features tokens of `dim` dimensions get: `expansion` a dimension, and at most MOST."""
    return min(expansion * dim, MOST)


def expand(samples: Samples, expansion: int, device: str = "cpu") -> np.ndarray:
    """The features of each sample's tokens [n, W] float64, W as `width` says; the same on any device."""
    exact = torch.float32 if device == "cpu" else torch.float64  # a GPU may be told to round float32 products
    signs = _signs(dim := samples.tokens.shape[1], width(dim, expansion)).to(device, exact)
    with own_numerics(1 if len(samples.tokens) <= FEW else torch.get_num_threads()):
        parts = [_summed(samples, rows, signs) for rows in _blocks(samples.offsets)]
    sums = np.concatenate(parts) if parts else np.zeros((0, signs.shape[1]))
    tokens = np.maximum(np.diff(samples.offsets), 1)[:, None]
    return np.sqrt(sums / (tokens * STEPS * np.sqrt(dim)) + FLOOR)


def _summed(samples: Samples, rows: range, signs: Tensor) -> np.ndarray:
    """The sums over tokens of relu(r . steps - threshold) [rows, W]: integers, as float64."""
    offsets = samples.offsets[rows.start : rows.stop + 1]
    threshold = round(STEPS * len(signs) ** 0.5)
    hidden = _normalised(samples.tokens[offsets[0] : offsets[-1]]).to(signs) @ signs
    hidden.sub_(threshold).clamp_(min=0)
    lengths = np.diff(offsets)
    if (lengths == lengths[0]).all():
        sums = hidden.view(len(rows), -1, hidden.shape[1]).sum(dim=1, dtype=torch.float64)
    else:
        sums = torch.segment_reduce(hidden.double(), "sum", lengths=torch.from_numpy(lengths).to(signs.device))
    return sums.cpu().numpy()


def _normalised(tokens: np.ndarray) -> Tensor:
    """LayerNorm of every token, in whole steps."""
    x = torch.from_numpy(np.ascontiguousarray(tokens)).double()
    x -= x.mean(dim=1, keepdim=True)
    x /= x.square().mean(dim=1, keepdim=True).add_(1e-6).sqrt_()
    return x.mul_(STEPS).round_().float()


def _blocks(offsets: np.ndarray) -> Iterator[range]:
    """The samples in runs of at most TOKENS tokens, or of one sample that has more."""
    start, n = 0, len(offsets) - 1
    while start < n:
        stop = max(int(np.searchsorted(offsets, offsets[start] + TOKENS, side="right")) - 1, start + 1)
        yield range(start, stop)
        start = stop


@lru_cache(maxsize=4)
def _signs(dim: int, width: int) -> Tensor:
    """r [dim, width]: a public constant, no part of any training."""
    assert dim * STEPS < 2**24, "sums of signed steps must be exact in float32"
    signs = generator(0, "expansion", dim, width).integers(0, 2, (dim, width)) * 2 - 1
    return torch.from_numpy(signs).float()
