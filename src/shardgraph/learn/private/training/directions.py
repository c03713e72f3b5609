"""The few directions in which linear adapters learn privately, from the owner's own samples.

Noise has the same size in every dimension, while the information from neighbours lies in few. So linear adapters learn
privately in `rank` directions only: W + A M', with A [C, r] learned and M [D + 1, r] fixed. M holds the principal
directions of the owner's own features, each scaled to unit spread and all by 1 / sqrt(r), so that a typical sample has
norm about 1 there. M depends on own samples, whose use is not restricted, and on no neighbour's.
"""

import torch
from torch import Tensor

FLOOR = 1e-3  # of the largest spread: directions with less are no wider than rounding


def directions(inputs: Tensor, rank: int) -> Tensor:
    """M [D + 1, r] from own inputs [n, D + 1], whose last column is the constant 1; r is at most 3 n / 4.

    With fewer than two own samples the spread of features is unknown, and all dimensions are used.
    """
    features = inputs[:, :-1]
    count, dim = features.shape
    kept = min(rank, 3 * count // 4, dim) if count > 1 else 0
    if kept == 0:
        scale: float = (dim + 1) ** -0.5
        return torch.eye(dim + 1) * scale
    mean = features.mean(dim=0)
    spread, axes = _principal(features - mean, kept)
    scaled = axes / spread.clamp(min=FLOOR * float(spread[0]) + 1e-12) * kept**-0.5
    return torch.cat([scaled, -(mean @ scaled).unsqueeze(0)])


def _principal(centred: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """The largest spreads [r] and their unit directions [D, r], by way of the smaller of the two products."""
    count, dim = centred.shape
    wide = count < dim
    product = centred @ centred.T if wide else centred.T @ centred
    squares, vectors = torch.linalg.eigh(product)
    lengths, vectors = squares.flip(0)[:kept].clamp(min=0).sqrt(), vectors.flip(1)[:, :kept]
    axes = centred.T @ vectors / lengths.clamp(min=FLOOR * float(lengths[0]) + 1e-12) if wide else vectors
    return lengths * count**-0.5, axes


def stacked(parts: list[Tensor]) -> Tensor:
    """The owners' M as one [O, D + 1, r]; those with fewer directions have zeros in the rest."""
    widest = max(part.shape[1] for part in parts)
    return torch.stack([torch.nn.functional.pad(part, (0, widest - part.shape[1])) for part in parts])
