"""The paper's joint masked training, as a reference for tests and benchmarks: all samples, all adapters at once.

One batch over all data, the loss matrix times the access mask, one backward call (appendix A). Its gradients of each
adapter equal ours. Its training does not forget exactly: batches and the number of steps depend on every shard, and
AdamW moves adapters whose samples are not in the batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from shardgraph.digest import generator
from shardgraph.learn.group import cosine
from shardgraph.learn.inca import Attention, Keys, layer_norm


@dataclass(frozen=True)
class MaskedProblem:
    """All samples, all M adapters, and which adapter may learn from which sample."""

    keys: Keys  # of all n samples
    positive: Tensor  # [M, n] bool: the sample's label is the adapter's class
    access: Tensor  # [M, n] bool: the adapter's shard may see the sample (the paper's A)
    attention: Attention


def logits(q: Tensor, v: Tensor, keys: Keys, attention: Attention) -> Tensor:
    """y [B, M], written as the paper writes it, with an explicit output projection and LayerNorm."""
    query = layer_norm(q) if attention.wq is None else layer_norm(q) @ attention.wq
    query = query.view(len(q), attention.heads, attention.head_dim)
    scores = torch.einsum("mhd,hbtd->bmht", query, keys.keys) * attention.head_dim**-0.5
    if keys.bias is not None:
        scores = scores + keys.bias[:, None, None, :]
    attended = torch.einsum("bmht,hbtd->bmhd", scores.softmax(dim=-1), keys.values).flatten(2)
    attended = attended if attention.wo is None else attended @ attention.wo
    return torch.einsum("bmd,md->bm", layer_norm(attended), v)


def masked_loss(q: Tensor, v: Tensor, problem: MaskedProblem, rows: Tensor) -> Tensor:
    """sum(L * A) over a batch: binary cross-entropy of every adapter it may reach."""
    y = logits(q, v, problem.keys.take(rows), problem.attention)
    hot = problem.positive[:, rows].T.to(y.dtype)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(y, hot, reduction="none")
    return (losses * problem.access[:, rows].T).sum()


def train_masked(
    q: Tensor,
    v: Tensor,
    problem: MaskedProblem,
    *,
    epochs: int,
    batch: int,
    lr: float,
    weight_decay: float,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """All adapters trained jointly, as the paper does it."""
    q, v = q.clone().requires_grad_(), v.clone().requires_grad_()
    optimiser = torch.optim.AdamW([q, v], lr=lr, weight_decay=weight_decay)
    count = problem.positive.shape[1]
    rng, steps, step = generator(seed, "masked"), epochs * -(-count // batch), 0
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(count))
        for rows in torch.split(order, batch):
            optimiser.param_groups[0]["lr"] = cosine(lr, step, steps)
            optimiser.zero_grad()
            torch.autograd.backward(masked_loss(q, v, problem, rows) / len(rows))
            optimiser.step()
            step += 1
    return q.detach(), v.detach()
