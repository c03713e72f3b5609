"""Second-order prototypes: a linear discriminant from the integer sums, solved from scratch at every build.

    mu_k = class means    Sigma = shared within-class covariance, shrunk: (1 - s) Sigma + s tr(Sigma) / F I
    score_k(x) = x' Sigma^-1 mu_k - 1/2 mu_k' Sigma^-1 mu_k

To forget, integers are subtracted and this is solved again: nothing is downdated, so nothing is remembered.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shardgraph.learn.prototypes import SCALE, Prototypes


@dataclass(frozen=True)
class Discriminant:
    """A linear classifier on normalised features: weights [F, K] and biases [K], float32."""

    weights: Tensor
    biases: Tensor

    def scores(self, unit: Tensor) -> Tensor:
        """The discriminant's scores [n, K] of normalised features [n, F]."""
        return unit @ self.weights + self.biases


def discriminant(prototypes: Prototypes, shrinkage: float) -> Discriminant:
    """The discriminant of these sums; a function of them alone."""
    assert prototypes.outer is not None
    counts = prototypes.counts.astype(np.float64)
    means = prototypes.sums / counts[:, None] / SCALE
    between = (means * counts[:, None]).T @ means
    within = (prototypes.outer / float(SCALE) ** 2 - between) / max(counts.sum() - len(counts), 1.0)
    spread = np.trace(within) / len(within)
    shrunk = (1 - shrinkage) * within
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * spread if spread > 1e-12 else 1.0  # one sample a class
    factor = torch.linalg.cholesky(torch.from_numpy(shrunk))
    weights = torch.cholesky_solve(torch.from_numpy(means.T.copy()), factor)
    biases = -0.5 * (torch.from_numpy(means.T.copy()) * weights).sum(dim=0)
    return Discriminant(weights.float(), biases.float())
