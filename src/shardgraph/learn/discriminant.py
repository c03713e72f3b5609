"""Second-order prototypes: a linear discriminant, solved from the integer sums at every build.

    mu_k = class means, less the mean m of all samples
    Sigma = shared within-class covariance, shrunk: (1 - s) Sigma + s tr(Sigma) / F I
    score_k(x) = ((x - m)' Sigma^-1 mu_k + c) / sqrt(g_k + c),    g_k = mu_k' Sigma^-1 mu_k

The model: a sample shows its class with a strength a, x = m + a mu_k + noise, where a is Gaussian with mean 1 and
variance 1 / c. Half the square of the score is the log-likelihood of class k at the best a (up to a constant that all
classes share). A large c gives the textbook discriminant (a = 1), c = 0 the paper's cosine, in the metric of Sigma.

To forget, integers are subtracted and the system is solved again. Nothing is downdated, so no trace remains.

The shrinkage s, unless the recipe sets it, is chosen from the same sums. If every class were a Gaussian with the shared
covariance, the sums would give the probability that the discriminant, shrunk by s, takes a new sample of class k for
one of class j: Phi(-margin / noise), where

    H = ((1 - s) Sigma + s tr(Sigma) / F I)^-1    d = mu_k - mu_j    h = (1 - s) tr(H Sigma) / (n - K)
    margin = d' H d / 2 - tr(H Sigma) / (1 - h) / n_k    noise = sqrt(d' H Sigma H d) / (1 - h)

The subtracted term and the divisions by 1 - h correct for Sigma and mu having been measured on the same samples (the
leverage of a sample, as in leave-one-out; Zollanvari and Dougherty's estimator of a regularised discriminant's error).
Classes have heavier tails than Gaussians, so the noise is multiplied by 1.5. The probabilities are computed on a block
of few features, which is fast, and carried over to all F of them by

    odds(s) = odds(s of the block) * 12 min(F / (n - K), 0.6)^1.5

whose constants were chosen on held-out parts of training data; docs/experiments.md describes how.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from shardgraph.learn.prototypes import SCALE, Prototypes, describe
from shardgraph.storage.samples import Samples

PRIOR = 0.4  # c, in units of the mean g_k; chosen on held-out parts of training data
BLOCK = 384  # features of each kind that the choice of s looks at
CLASSES = 512  # classes that it looks at
TAILS = 1.5
HALF_LOG_ODDS = range(-20, 9)  # the candidates for s: exp(x / 2) are the odds s / (1 - s)
LEAST, MOST = 1e-4, 99.0  # odds of the result


@dataclass(frozen=True)
class Discriminant:
    """A linear classifier on the description of a sample: weights [F, K] and biases [K], float32."""

    weights: Tensor
    biases: Tensor
    expansion: int

    def scores(self, samples: Samples) -> Tensor:
        """The scores [n, K] of the samples."""
        described = torch.from_numpy(describe(samples, self.expansion)).float() / SCALE
        return described @ self.weights + self.biases


def discriminant(prototypes: Prototypes, shrinkage: float | None = None, prior: float = PRIOR) -> Discriminant:
    """The discriminant of these sums; it depends on nothing else."""
    assert prototypes.outer is not None
    counts = torch.from_numpy(prototypes.counts).double()
    means = torch.from_numpy(prototypes.sums) / counts[:, None] / SCALE
    freedom = max(float(counts.sum()) - len(counts), 1.0)
    square = torch.from_numpy(prototypes.products()).div_(float(SCALE) ** 2)  # large, so it is changed in place below
    spread = float((square.diagonal() - counts @ means.square()).mean()) / freedom
    if shrinkage is None:
        shrinkage = choose_shrinkage(square, means, counts, prototypes.wide)
    rest = (1 - shrinkage) / freedom
    shrunk = square.addmm_((means * counts[:, None]).T, means, beta=rest, alpha=-rest)
    shrunk.diagonal().add_(shrinkage * spread if spread > 1e-12 else 1.0)  # 1.0: each class has one sample
    factor = torch.linalg.cholesky(shrunk.mT)  # reads the lower triangle only
    centre = counts @ means / counts.sum()
    half = torch.linalg.solve_triangular(factor, (means - centre).T, upper=False)
    weights = torch.linalg.solve_triangular(factor.mT, half, upper=True)
    strengths = half.square().sum(dim=0)
    known = prior * strengths.mean()
    roots = (strengths + known).clamp_(min=1e-12).sqrt_()  # 1e-12: one class, or equal classes
    biases = (known - centre @ weights) / roots
    return Discriminant((weights / roots).float(), biases.float(), prototypes.expansion)


def choose_shrinkage(square: Tensor, means: Tensor, counts: Tensor, wide: int) -> float:
    """The shrinkage s for these sums.

    square   [F, F] the sum of outer products, upper triangle only
    means    [K, F] of the classes
    counts   [K] samples of the classes
    wide     how many of the F are random features of tokens; they come last
    """
    features, freedom = len(square), max(float(counts.sum()) - len(counts), 1.0)
    pooled = features - wide
    rows = torch.cat([_evenly_spaced(pooled, BLOCK), torch.arange(pooled, min(pooled + BLOCK, features))])
    within = square[rows][:, rows].triu()
    within = within + within.triu(1).T - (means[:, rows] * counts[:, None]).T @ means[:, rows]
    some = _evenly_spaced(len(means), CLASSES)
    candidates = [math.exp(x / 2) for x in HALF_LOG_ODDS]
    errors = predicted_errors(within / freedom, means[some][:, rows], counts[some], freedom, candidates)
    best = candidates[errors.index(min(errors))]
    odds: float = min(max(best * 12 * min(features / freedom, 0.6) ** 1.5, LEAST), MOST)
    return odds / (1 + odds)


def predicted_errors(within: Tensor, means: Tensor, counts: Tensor, freedom: float, odds: list[float]) -> list[float]:
    """The share of errors that a Gaussian model predicts, for each of the odds; `freedom`: degrees of `within`."""
    values, vectors = torch.linalg.eigh(within)
    values.clamp_(min=0)
    turned = means @ vectors
    sphere = max(float(values.mean()), 1e-300)
    return [_predicted(values, turned, counts, freedom, sphere, x / (1 + x)) for x in odds]


def _predicted(values: Tensor, means: Tensor, counts: Tensor, freedom: float, sphere: float, shrinkage: float) -> float:
    inverse = 1 / ((1 - shrinkage) * values + shrinkage * sphere)
    trace = float((inverse * values).sum())
    unseen = 1 - (1 - shrinkage) * trace / freedom
    margins = _distances(means, inverse) / 2 - (trace / unseen / counts)[:, None]
    noise = _distances(means, inverse.square() * values).clamp_(min=1e-300).sqrt_() / unseen
    right = torch.special.log_ndtr(margins / (TAILS * noise)).fill_diagonal_(0)
    return 1 - float(counts @ right.sum(dim=1).exp() / counts.sum())


def _distances(means: Tensor, weights: Tensor) -> Tensor:
    """(mu_k - mu_j)' diag(weights) (mu_k - mu_j), for all pairs of classes [K, K]."""
    products = (means * weights) @ means.T
    squares = products.diagonal()
    return squares[:, None] + squares[None] - 2 * products


def _evenly_spaced(count: int, most: int) -> Tensor:
    """At most `most` of the indices below `count`, evenly spaced."""
    return torch.arange(0, count, max(-(-count // most), 1))
