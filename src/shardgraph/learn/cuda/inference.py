"""All adapters on a batch of samples: the forward half of training's kernels, the same adapters for every sample."""

import torch
from torch import Tensor

from shardgraph.learn.cuda import kernels
from shardgraph.learn.cuda.training import ATTEND, BLOCK, CHUNK, LOG2E, KeysOnDevice, padded
from shardgraph.learn.inca import EPS


def flat(x: Tensor) -> Tensor:
    """[H, A, d] -> [A, D], with rows of zeros up to a whole number of blocks."""
    rows = x.transpose(0, 1).reshape(x.shape[1], -1)
    return torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % BLOCK)).contiguous()


def logits(queries: Tensor, heads: Tensor, keys: KeysOnDevice) -> Tensor:
    """y [n, A] of every adapter on every sample, from scaled queries and folded heads [H, A, d]."""
    count, head_count, tokens, width = keys.keys.shape
    groups, device = -(-count // CHUNK), keys.keys.device
    rows = torch.arange(groups * CHUNK, dtype=torch.int32, device=device)
    rows[count:] = -1
    counts = torch.full((groups,), float(CHUNK), device=device)
    q, v = flat(queries.float() * LOG2E).to(keys.keys.dtype), flat(heads.float())
    stats = torch.empty(groups * CHUNK, head_count, 3, len(q), device=device)
    step = torch.zeros(1, dtype=torch.int32, device=device)
    kernels.attend[(groups, head_count, len(q) // BLOCK)](
        keys.keys, keys.lengths, rows, counts, step, q, v, stats, groups, tokens,
        H=head_count, TP=padded(tokens), DH=width, CP=len(q), CB=BLOCK,
        B=CHUNK, CHUNK=CHUNK, CHUNKS=1, SHARED=True, **ATTEND,
    )  # fmt: skip
    dot, square, total = stats[:count, :, :, : queries.shape[1]].sum(dim=1).unbind(dim=1)
    mean, dim = total / (head_count * width), head_count * width
    return dot * (square / dim - mean * mean + EPS).rsqrt()
