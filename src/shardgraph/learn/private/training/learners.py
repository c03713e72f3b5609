"""Both kinds of adapter, as private training meets them: parameters [k, C, D], own and private samples held apart."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from shardgraph.learn import inca
from shardgraph.learn.group import initial_parameters
from shardgraph.learn.inca import Attention, frozen_attention, layer_norm
from shardgraph.learn.private.training.directions import directions, stacked
from shardgraph.learn.private.training.gradients import LinearGradients, OwnedGradients, SampleGradients, inca_gradients
from shardgraph.learn.private.training.masks import Masks
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples


class Learner(Protocol):
    """What the training loop asks of an adapter kind.

    width    numbers that an adapter learns privately, in each of its k rows
    length   about how long a sample's inputs are there
    """

    @property
    def width(self) -> int: ...

    @property
    def length(self) -> float: ...

    def start(self, name: str, classes: tuple[str, ...], seed: int) -> Tensor:
        """The parameters before training."""
        ...

    def own(self, parameters: Tensor, rows: list[Tensor]) -> Tensor:
        """[k, C, D]: for each owner's adapters the gradient of the mean loss over `rows` of its own samples."""
        ...

    def private(self, parameters: Tensor, rows: Tensor) -> SampleGradients:
        """The gradients of some private samples, kept apart."""
        ...

    def spread(self, update: Tensor) -> Tensor:
        """[k, C, r] -> [k, C, D]: what a private update means for the parameters."""
        ...

    def finished(self, parameters: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The two tensors of `Adapters`."""
        ...


@dataclass(frozen=True)
class Targets:
    """What every adapter should say: 1 for its class, 0 for any other."""

    adapters: list[Tensor]  # of each owner
    own: list[Tensor]  # [n_o, c_o] for each owner, its adapters on its own samples
    private: Tensor  # [n', C] on the private samples
    used: Tensor  # [n', C] bool: who may learn from them

    @classmethod
    def of(cls, samples: Samples, classes: tuple[str, ...], masks: Masks) -> "Targets":
        hot = torch.from_numpy(np.array(samples.labels)[:, None] == np.array(classes)).float()
        own = [hot[owner.own][:, owner.adapters] for owner in masks.owners]
        adapters = [torch.from_numpy(owner.adapters) for owner in masks.owners]
        return cls(adapters, own, hot[masks.private], torch.from_numpy(masks.used))


def learner(
    samples: Samples, classes: tuple[str, ...], masks: Masks, recipe: Recipe, seed: int, rank: int = 0
) -> Learner:
    """The learner of this recipe over these samples; `rank` is for linear adapters, others learn in all dimensions.

    Own samples are laid out owner by owner: padding to the longest sample must not carry news of a private one.
    """
    targets = Targets.of(samples, classes, masks)
    own, private = [samples.take(owner.own) for owner in masks.owners], samples.take(masks.private)
    if recipe.adapter == "linear":
        inputs = [_inputs(part) for part in own]
        ways = stacked([directions(each, rank) for each in inputs]) if rank else None
        others = _inputs(private)
        return LinearLearner(targets, inputs, others, ways, [] if ways is None else [others @ way for way in ways])
    attention = frozen_attention(samples.tokens.shape[1], recipe, seed)
    keys = [inca.project(part, attention) for part in own]
    return IncaLearner(targets, attention, keys, inca.project(private, attention))


@dataclass(frozen=True)
class IncaLearner:
    """Queries and heads: parameters [2, C, D]."""

    targets: Targets
    attention: Attention
    own_keys: list[inca.Keys]
    private_keys: inca.Keys

    def start(self, name: str, classes: tuple[str, ...], seed: int) -> Tensor:
        return initial_parameters(name, classes, self.attention.dim, seed).view(2, len(classes), -1)

    def own(self, parameters: Tensor, rows: list[Tensor]) -> Tensor:
        batches = [keys.take(each) for keys, each in zip(self.own_keys, rows, strict=True)]
        hot = [target[each] for target, each in zip(self.targets.own, rows, strict=True)]
        mine = [parameters[:, each] for each in self.targets.adapters]
        if len(batches) > 4 and _alike(batches, hot):  # many small owners at once
            keys, values = (torch.stack([getattr(b, name) for b in batches]) for name in ("keys", "values"))
            found = list(torch.vmap(self._own)(torch.stack(mine), torch.stack(hot), keys, values))
        else:
            found = [self._own(p, h, b.keys, b.values, b.bias) for p, h, b in zip(mine, hot, batches, strict=True)]
        return _placed(parameters, self.targets.adapters, found)

    def _own(self, parameters: Tensor, hot: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None) -> Tensor:
        q, v = parameters
        batch = inca.Keys(keys, values, bias)
        done = inca.forward(q, v, batch, self.attention)
        return torch.stack(inca.backward(_slope(done.logits, hot), q, v, batch, done, self.attention))

    def private(self, parameters: Tensor, rows: Tensor) -> SampleGradients:
        q, v = parameters
        batch, targets = self.private_keys.take(rows), self.targets
        return inca_gradients(q, v, batch, targets.used[rows], targets.private[rows], self.attention)

    @property
    def width(self) -> int:
        return self.attention.dim

    @property
    def length(self) -> float:
        return float(self.attention.dim**0.5)  # after LayerNorm

    def spread(self, update: Tensor) -> Tensor:
        return update

    def finished(self, parameters: Tensor) -> tuple[np.ndarray, np.ndarray]:
        return parameters[0].numpy(), parameters[1].numpy()


@dataclass(frozen=True)
class LinearLearner:
    """Weights and, as the weight of a constant, biases: parameters [1, C, D + 1].

    ways   [O, D + 1, r] the directions in which each owner's adapters learn privately; None: all of them
    """

    targets: Targets
    own_inputs: list[Tensor]
    private_inputs: Tensor
    ways: Tensor | None = None
    seen: list[Tensor] = field(default_factory=list)  # [n', r] the private samples as each owner sees them there

    def start(self, name: str, classes: tuple[str, ...], seed: int) -> Tensor:
        """Small weights, and biases for equally frequent classes: the first steps would learn nothing else."""
        weights = initial_parameters(name, classes, self.private_inputs.shape[1] - 1, seed)[len(classes) :]
        return torch.nn.functional.pad(weights, (0, 1), value=-math.log(max(1, len(classes) - 1))).unsqueeze(0)

    def own(self, parameters: Tensor, rows: list[Tensor]) -> Tensor:
        parts = zip(self.own_inputs, self.targets.own, rows, strict=True)
        if len(rows) == 1:  # one owner of all adapters: nothing to pick, nothing to place
            return torch.stack([self._own(parameters[0], *part) for part in parts])
        mine = [parameters[0, each] for each in self.targets.adapters]
        found = [self._own(weights, *part) for weights, part in zip(mine, parts, strict=True)]
        return _placed(parameters, self.targets.adapters, found)

    def _own(self, weights: Tensor, inputs: Tensor, hot: Tensor, rows: Tensor) -> Tensor:
        batch = inputs[rows]
        return _slope(batch @ weights.T, hot[rows]).T @ batch

    def private(self, parameters: Tensor, rows: Tensor) -> SampleGradients:
        batch = self.private_inputs[rows]
        error = torch.sigmoid(batch @ parameters[0].T) - self.targets.private[rows]
        slope = torch.where(self.targets.used[rows], error, 0.0)
        if self.ways is None:
            return LinearGradients(slope, batch)
        return OwnedGradients(slope, [seen[rows] for seen in self.seen], self.targets.adapters)

    @property
    def width(self) -> int:
        return self.private_inputs.shape[1] if self.ways is None else self.ways.shape[2]

    @property
    def length(self) -> float:
        return float(self.width**0.5) if self.ways is None else 1.0

    def spread(self, update: Tensor) -> Tensor:
        if self.ways is None:
            return update
        parts = [update[:, each] @ way.T for each, way in zip(self.targets.adapters, self.ways, strict=True)]
        return _placed(update.new_zeros(*update.shape[:2], self.ways.shape[1]), self.targets.adapters, parts)

    def finished(self, parameters: Tensor) -> tuple[np.ndarray, np.ndarray]:
        return parameters[0, :, :-1].contiguous().numpy(), parameters[0, :, -1].contiguous().numpy()


def _slope(logits: Tensor, hot: Tensor) -> Tensor:
    """d loss / d logits of the mean binary loss over a batch."""
    return (torch.sigmoid(logits) - hot) / len(logits)


def _placed(like: Tensor, adapters: list[Tensor], parts: list[Tensor]) -> Tensor:
    """The owners' parts of a gradient, each at its adapters."""
    grad = torch.zeros_like(like)
    for each, part in zip(adapters, parts, strict=True):
        grad[:, each] = part
    return grad


def _alike(batches: list[inca.Keys], hot: list[Tensor]) -> bool:
    """Whether they can be stacked: as many adapters and tokens in each, and no padding."""
    same = all(each.keys.shape == batches[0].keys.shape and each.bias is None for each in batches)
    return same and all(each.shape == hot[0].shape for each in hot)


def _inputs(samples: Samples) -> Tensor:
    features = layer_norm(torch.from_numpy(samples.features).float())
    return torch.cat([features, torch.ones(len(samples), 1)], dim=1)
