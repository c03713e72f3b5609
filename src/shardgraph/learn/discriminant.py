"""Second-order prototypes: a linear discriminant from the integer sums, solved from scratch at every build.

    mu_k = class means, less the mean m of all samples
    Sigma = shared within-class covariance, shrunk: (1 - s) Sigma + s tr(Sigma) / F I
    s = what `shrinkage.py` chooses from the same sums, unless the recipe has a constant
    score_k(x) = ((x - m)' Sigma^-1 mu_k + c) / sqrt(g_k + c),    g_k = mu_k' Sigma^-1 mu_k

A sample shows its class more or less strongly: x = m + a mu_k + noise, where a comes from a Gaussian around 1 of
variance 1 / c. Half the square of the score is how likely class k is under the a that suits it best (the logarithm, but
for what all classes share). A large c gives the textbook's discriminant (a = 1), c = 0 the paper's cosine, by Sigma.

To forget, integers are subtracted and this is solved again: nothing is downdated, so nothing is remembered.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from shardgraph.data.samples import Samples
from shardgraph.learn.prototypes import SCALE, Prototypes, describe
from shardgraph.learn.shrinkage import chosen

PRIOR = 0.4  # c, in units of the mean g_k; chosen on held-out parts of training data


@dataclass(frozen=True)
class Discriminant:
    """A linear classifier on what describes a sample: weights [F, K] and biases [K], float32."""

    weights: Tensor
    biases: Tensor
    expansion: int

    def scores(self, samples: Samples) -> Tensor:
        """The discriminant's scores [n, K]."""
        described = torch.from_numpy(describe(samples, self.expansion)).float() / SCALE
        return described @ self.weights + self.biases


def discriminant(prototypes: Prototypes, shrinkage: float | None = None, prior: float = PRIOR) -> Discriminant:
    """The discriminant of these sums; a function of them alone."""
    assert prototypes.outer is not None
    counts = torch.from_numpy(prototypes.counts).double()
    means = torch.from_numpy(prototypes.sums) / counts[:, None] / SCALE
    freedom = max(float(counts.sum()) - len(counts), 1.0)
    square = torch.from_numpy(prototypes.products()).div_(float(SCALE) ** 2)  # large: changed in place from here on
    spread = float((square.diagonal() - counts @ means.square()).mean()) / freedom
    if shrinkage is None:
        shrinkage = chosen(square, means, counts, prototypes.wide)
    rest = (1 - shrinkage) / freedom
    shrunk = square.addmm_((means * counts[:, None]).T, means, beta=rest, alpha=-rest)
    shrunk.diagonal().add_(shrinkage * spread if spread > 1e-12 else 1.0)  # 1.0: one sample a class
    factor = torch.linalg.cholesky(shrunk.mT)  # which looks at the lower triangle alone
    centre = counts @ means / counts.sum()
    half = torch.linalg.solve_triangular(factor, (means - centre).T, upper=False)
    weights = torch.linalg.solve_triangular(factor.mT, half, upper=True)
    strengths = half.square().sum(dim=0)
    known = prior * strengths.mean()
    roots = (strengths + known).clamp_(min=1e-12).sqrt_()  # 1e-12: one class, or all alike
    biases = (known - centre @ weights) / roots
    return Discriminant((weights / roots).float(), biases.float(), prototypes.expansion)
