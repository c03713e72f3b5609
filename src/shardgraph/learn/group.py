"""Training of one group: a pure function of its samples, the recipe, the root seed and the group's name.

It reads no clock, no global state and no other group. The same call gives the same bytes in any process, on any
executor and beside any other groups, under one numerics fingerprint.

Optimiser: AdamW with a cosine schedule on one flat tensor; its state ends with the training.

Losses are over the adapters of the group, with gradients in closed form. A sample whose label has no adapter in the
group has target -1: for "bce" it is a negative of every adapter, for "ce" it belongs to a background class whose logit
is fixed at 0.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from shardgraph.digest import generator
from shardgraph.learn import inca
from shardgraph.learn.inca import Adapters, frozen_attention, layer_norm
from shardgraph.learn.numerics import fixed_numerics
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class GroupInputs:
    """The inputs of a group's training.

    samples   the samples of its neighbourhood, in canonical order
    classes   the classes of its members, which get adapters
    start     earlier adapters, whose values are the initial values of the classes they hold
    """

    name: str
    samples: Samples
    classes: tuple[str, ...]
    start: Adapters | None = None


def train_group(
    name: str,
    samples: Samples,
    classes: tuple[str, ...],
    recipe: Recipe,
    seed: int,
    start: Adapters | None = None,
) -> Adapters:
    """The adapters for `classes` (sorted labels), trained on `samples` (the group's whole neighbourhood).

    A sample whose label is not among `classes` is a negative for all of them. The classes of `start` begin with its
    values.
    """
    samples = samples.canonical()
    index = {label: i for i, label in enumerate(classes)}
    with fixed_numerics():
        targets = torch.tensor([index.get(label, -1) for label in samples.labels])
        train = {"inca": _train_inca, "linear": _train_linear}[recipe.adapter]
        first, second = train(name, samples, targets, classes, recipe, seed, start)
    return Adapters(recipe.adapter, classes, first.numpy(), second.numpy(), len(samples))


def batches(name: str, count: int, recipe: Recipe, seed: int) -> Iterator[tuple[float, np.ndarray]]:
    """The learning rate and the rows of every step; each epoch has a new order."""
    rng = generator(seed, "order", name)
    per_epoch = -(-count // recipe.batch)
    for epoch in range(recipe.epochs):
        order = rng.permutation(count)
        for i in range(per_epoch):
            lr = cosine(recipe.lr, epoch * per_epoch + i, recipe.epochs * per_epoch)
            yield lr, order[i * recipe.batch : (i + 1) * recipe.batch]


def cosine(lr: float, step: int, steps: int) -> float:
    """The learning rate of `step` (from 0): half a cosine from `lr` down towards 0."""
    return lr * 0.5 * (1 + math.cos(math.pi * step / steps))


def initial_parameters(
    name: str, classes: tuple[str, ...], dim: int, seed: int, start: Adapters | None = None
) -> Tensor:
    """Queries and heads [2 C, D] before training; the values of a class depend on no other class."""
    draws = [generator(seed, "adapter", name, label).standard_normal((2, dim)) for label in classes]
    queries_heads = np.stack(draws, axis=1)  # [2, C, D]
    queries_heads[1] *= 0.02
    parameters = torch.from_numpy(queries_heads.reshape(-1, dim)).float()
    _copy_known(parameters[: len(classes)], parameters[len(classes) :], classes, start)
    return parameters


@dataclass
class AdamW:
    """Decoupled weight decay and bias-corrected moments, as torch.optim.AdamW."""

    parameters: Tensor
    weight_decay: float

    def __post_init__(self) -> None:
        self.mean = torch.zeros_like(self.parameters)
        self.square = torch.zeros_like(self.parameters)
        self.steps = 0

    def step(self, grad: Tensor, lr: float) -> None:
        """Update the parameters in place."""
        self.steps += 1
        self.mean.lerp_(grad, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        scale = math.sqrt(1 - BETA2**self.steps)
        denominator = self.square.sqrt().div_(scale).add_(EPSILON)
        self.parameters.mul_(1 - lr * self.weight_decay)
        self.parameters.addcdiv_(self.mean, denominator, value=-lr / (1 - BETA1**self.steps))


def loss_gradient(logits: Tensor, targets: Tensor, loss: Literal["ce", "bce"], background: bool) -> Tensor:
    """d loss / d logits [B, C]; the loss is the mean over the batch (summed over adapters for "bce")."""
    if loss == "bce":
        probabilities = torch.sigmoid(logits)
    elif background:
        probabilities = torch.softmax(torch.nn.functional.pad(logits, (0, 1)), dim=1)[:, :-1]
    else:
        probabilities = torch.softmax(logits, dim=1)
    hot = targets.unsqueeze(1) == torch.arange(logits.shape[1], device=logits.device)
    return (probabilities - hot.to(logits.dtype)) / len(logits)


def loss_value(logits: Tensor, targets: Tensor, loss: Literal["ce", "bce"], background: bool) -> Tensor:
    """The loss whose gradient `loss_gradient` gives; for tests and reports."""
    hot = (targets.unsqueeze(1) == torch.arange(logits.shape[1], device=logits.device)).to(logits.dtype)
    if loss == "bce":
        total = torch.nn.functional.binary_cross_entropy_with_logits(logits, hot, reduction="sum")
        return total / len(logits)
    if background:
        logits = torch.nn.functional.pad(logits, (0, 1))
        targets = torch.where(targets < 0, logits.shape[1] - 1, targets)
    return torch.nn.functional.cross_entropy(logits, targets)


def _train_inca(
    name: str,
    samples: Samples,
    targets: Tensor,
    classes: tuple[str, ...],
    recipe: Recipe,
    seed: int,
    start: Adapters | None,
) -> tuple[Tensor, Tensor]:
    attention = frozen_attention(samples.tokens.shape[1], recipe, seed)
    keys = inca.project(samples, attention)
    parameters = initial_parameters(name, classes, attention.dim, seed, start)
    q, v = parameters[: len(classes)], parameters[len(classes) :]
    optimiser = AdamW(parameters, recipe.weight_decay)
    background = bool((targets < 0).any())
    for lr, chosen in batches(name, len(samples), recipe, seed):
        rows = torch.from_numpy(chosen)
        batch = keys.take(rows)
        done = inca.forward(q, v, batch, attention)
        grad = loss_gradient(done.logits, targets[rows], recipe.loss, background)
        optimiser.step(torch.cat(inca.backward(grad, q, v, batch, done, attention)), lr)
    return q, v


def _train_linear(
    name: str,
    samples: Samples,
    targets: Tensor,
    classes: tuple[str, ...],
    recipe: Recipe,
    seed: int,
    start: Adapters | None,
) -> tuple[Tensor, Tensor]:
    features = layer_norm(torch.from_numpy(samples.features).float())
    ones = torch.ones(len(samples), 1)
    inputs = torch.cat([features, ones], dim=1)  # the bias is the weight of a constant
    parameters = torch.zeros(len(classes), inputs.shape[1])
    parameters[:, :-1] = initial_parameters(name, classes, features.shape[1], seed)[len(classes) :]
    _copy_known(parameters[:, :-1], parameters[:, -1], classes, start)
    optimiser = AdamW(parameters, recipe.weight_decay)
    background = bool((targets < 0).any())
    for lr, chosen in batches(name, len(samples), recipe, seed):
        rows = torch.from_numpy(chosen)
        batch = inputs[rows]
        grad = loss_gradient(batch @ parameters.T, targets[rows], recipe.loss, background)
        optimiser.step(grad.T @ batch, lr)
    return parameters[:, :-1].contiguous(), parameters[:, -1].contiguous()


def _copy_known(first: Tensor, second: Tensor, classes: tuple[str, ...], start: Adapters | None) -> None:
    """Overwrite the initial values of the classes that `start` holds."""
    known = {label: i for i, label in enumerate(start.classes)} if start else {}
    for i, label in enumerate(classes):
        if start and label in known:
            first[i] = torch.from_numpy(start.first[known[label]])
            second[i] = torch.as_tensor(start.second[known[label]])
