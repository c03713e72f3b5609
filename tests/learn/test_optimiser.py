import torch

from shardgraph.learn.group import AdamW, cosine


def test_adamw_moves_as_torch_does():
    draw = torch.Generator().manual_seed(0)
    ours = torch.randn(6, 4, dtype=torch.float64, generator=draw)
    theirs = torch.nn.Parameter(ours.clone())
    mine, reference = AdamW(ours, 0.1), torch.optim.AdamW([theirs], lr=1.0, weight_decay=0.1)
    start = ours.clone()
    for step in range(20):
        grad = torch.randn(6, 4, dtype=torch.float64, generator=draw)
        lr = cosine(0.05, step, 20)
        mine.step(grad, lr)
        reference.param_groups[0]["lr"] = lr
        theirs.grad = grad.clone()
        reference.step()
    assert (ours - start).abs().min() > 1e-3
    # float64; torch multiplies by the bias correction where we divide, a rounding apart at each step
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-13)


def test_cosine_starts_at_lr_halves_in_the_middle_and_approaches_zero():
    assert cosine(0.05, 0, 10) == 0.05
    assert abs(cosine(0.05, 5, 10) - 0.025) < 1e-12
    assert 0 < cosine(0.05, 9, 10) < 0.0013
