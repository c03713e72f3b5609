"""AdamW with a cosine schedule, on one flat tensor and with no state that outlives a group's training."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def cosine(lr: float, step: int, steps: int) -> float:
    """The learning rate of `step` (from 0): half a cosine from `lr` down towards 0."""
    return lr * 0.5 * (1 + math.cos(math.pi * step / steps))


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
        """Move the parameters once, in place."""
        self.steps += 1
        self.mean.lerp_(grad, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        scale = math.sqrt(1 - BETA2**self.steps)
        denominator = self.square.sqrt().div_(scale).add_(EPSILON)
        self.parameters.mul_(1 - lr * self.weight_decay)
        self.parameters.addcdiv_(self.mean, denominator, value=-lr / (1 - BETA1**self.steps))
