"""The paper's joint masked training: the same gradients as ours, and not the same promise."""

import torch

from experiments import masked
from shardgraph.learn import inca
from shardgraph.learn.group import initial_parameters, loss_gradient, train_group
from shardgraph.learn.inca import frozen_attention
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import concatenate
from tests.strategies import embed, many

RECIPE = Recipe(projection="random", heads=2, loss="bce", epochs=3, batch=4, lr=0.05)
GROUPS = {"here": ("ant", "bee"), "there": ("cat", "dog", "ant")}  # ant is known to both


def group_samples(name, count):
    rows = [row._replace(id=f"{name}-{row.id}") for row in many(count, labels=GROUPS[name])]
    return embed(rows, most_tokens=3)


def joint_problem(groups, attention, dtype):
    """All samples, all adapters; an adapter's shard may see the samples of its own group."""
    samples = concatenate(groups.values())
    owner = [name for name, part in groups.items() for _ in part.ids]
    adapters = [(name, label) for name in groups for label in GROUPS[name]]
    positive = torch.tensor([[label == k for label in samples.labels] for _, k in adapters])
    access = torch.tensor([[own == name for own in owner] for name, _ in adapters])
    return masked.MaskedProblem(inca.project(samples, attention, dtype), positive, access, attention)


def test_masked_gradients_of_every_adapter_equal_those_of_its_group_alone():
    attention = frozen_attention(8, RECIPE, 0, torch.float64)
    groups = {"here": group_samples("here", 5), "there": group_samples("there", 8)}
    problem = joint_problem(groups, attention, torch.float64)
    starts = [initial_parameters(name, GROUPS[name], 8, 0).double().chunk(2) for name in groups]
    q = torch.cat([start[0] for start in starts]).requires_grad_()
    v = torch.cat([start[1] for start in starts]).requires_grad_()
    masked.masked_loss(q, v, problem, torch.arange(13)).backward()

    row = 0
    for (name, samples), (own_q, own_v) in zip(groups.items(), starts, strict=True):
        keys = inca.project(samples, attention, torch.float64)
        targets = torch.tensor([GROUPS[name].index(label) for label in samples.labels])
        done = inca.forward(own_q, own_v, keys, attention)
        mean = loss_gradient(done.logits, targets, "bce", False)
        grads = inca.backward(mean * len(samples), own_q, own_v, keys, done, attention)  # the paper sums
        mine = slice(row, row + len(own_q))
        for ours, theirs in zip(grads, (q.grad, v.grad), strict=True):
            assert theirs[mine].abs().max() > 1e-3
            # float64; the group alone is padded to fewer tokens, so sums come in another order
            torch.testing.assert_close(ours, theirs[mine], rtol=1e-11, atol=1e-12)
        row += len(own_q)


def test_one_sample_elsewhere_changes_unrelated_adapters_of_the_masked_reference_and_none_of_ours():
    attention = frozen_attention(8, RECIPE, 0)
    here = group_samples("here", 6)
    trained, exact = [], []
    for elsewhere in (9, 10):
        groups = {"here": here, "there": group_samples("there", elsewhere)}
        problem = joint_problem(groups, attention, torch.float32)
        starts = [initial_parameters(name, GROUPS[name], 8, 0).chunk(2) for name in groups]
        q, v = (torch.cat([start[i] for start in starts]) for i in range(2))
        settings = {"epochs": RECIPE.epochs, "batch": RECIPE.batch, "lr": RECIPE.lr, "seed": 0}
        q, _ = masked.train_masked(q, v, problem, weight_decay=RECIPE.weight_decay, **settings)
        trained.append(q[: len(GROUPS["here"])])
        exact.append(
            {name: train_group(name, part, tuple(sorted(GROUPS[name])), RECIPE, 0) for name, part in groups.items()}
        )

    assert not torch.equal(*trained)
    assert exact[0]["here"].to_bytes() == exact[1]["here"].to_bytes()
    assert exact[0]["there"].to_bytes() != exact[1]["there"].to_bytes(), "the extra sample was really learned"
