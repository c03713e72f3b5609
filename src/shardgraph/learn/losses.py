"""Losses over the adapters of one group, with their gradients in closed form.

A sample whose label has no adapter in the group has target -1: for "bce" it is a negative of every
adapter, for "ce" it belongs to a background whose logit is fixed at 0.
"""

from typing import Literal

import torch
from torch import Tensor


def loss_gradient(logits: Tensor, targets: Tensor, loss: Literal["ce", "bce"], background: bool) -> Tensor:
    """d loss / d logits [B, C], the loss being the mean over the batch (summed over adapters for "bce")."""
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
