"""Loss gradients in closed form against torch's own losses."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from shardgraph.learn.group import loss_gradient, loss_value


def by_torch(logits, targets, loss, background):
    """The loss spelled with torch's functions: a negative of all for "bce", a logit of zero for "ce"."""
    if loss == "bce":
        hot = torch.stack([(targets == k).to(logits.dtype) for k in range(logits.shape[1])], dim=1)
        return binary_cross_entropy_with_logits(logits, hot, reduction="none").sum(dim=1).mean()
    if background:
        logits = torch.cat([logits, logits.new_zeros(len(logits), 1)], dim=1)
        targets = torch.where(targets < 0, logits.shape[1] - 1, targets)
    return cross_entropy(logits, targets)


CASES = [
    ("ce", False, [0, 1, 2, 2, 0]),
    ("ce", True, [0, -1, 2, -1, 1]),
    ("ce", True, [0, 1, 2, 2, 0]),  # the group knows a background, this batch has none of it
    ("bce", False, [0, 1, 2, 2, 0]),
    ("bce", True, [0, -1, 2, -1, 1]),
]


@pytest.mark.parametrize(("loss", "background", "targets"), CASES)
def test_value_and_gradient_are_those_of_torch(loss, background, targets):
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.tensor(targets)
    expected = by_torch(logits, targets, loss, background)
    expected.backward()
    torch.testing.assert_close(loss_value(logits, targets, loss, background), expected)
    ours = loss_gradient(logits.detach(), targets, loss, background)
    torch.testing.assert_close(ours, logits.grad, rtol=1e-12, atol=1e-15)  # float64, other order of sums


def test_bce_leaves_the_adapters_independent():
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([0, 1, 2, 2, 0])
    whole = loss_gradient(logits, targets, "bce", False)
    alone = loss_gradient(logits[:, :1], torch.where(targets == 0, 0, -1), "bce", True)
    assert torch.equal(whole[:, :1], alone)
