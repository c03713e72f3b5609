"""All adapters in one pass against the forward pass of training, in memory that is used again."""

import pytest
import torch

from shardgraph.learn import inca
from shardgraph.learn.ensemble import SAFE_EXPONENT, Voices
from shardgraph.learn.inca import frozen_attention
from shardgraph.learn.recipe import Recipe
from tests.strategies import embed, many

CLOSE = {"rtol": 1e-4, "atol": 1e-4}  # float32, sums in another order


def drawn(adapters, dim):
    return torch.randn(2, adapters, dim, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("projection", ["random", "orthogonal", "identity"])
def test_voices_equal_the_forward_pass_of_training(projection):
    attention = frozen_attention(8, Recipe(projection=projection, heads=2), 3)
    keys = inca.project(embed(many(7), dim=8, most_tokens=4), attention)
    assert keys.bias is not None, "tokens of unequal number are wanted here"
    q, v = drawn(5, 8)
    found = Voices.prepare(q, v, attention).answer(keys)
    torch.testing.assert_close(found, inca.forward(q, v, keys, attention).logits, **CLOSE)


def test_scores_too_high_for_an_exponential_are_told_apart():
    attention = frozen_attention(512, Recipe(heads=32), 3)
    q, v = drawn(3, 512)
    q[:, :16] *= 1000  # nearly all of a query's length in one head
    samples = embed(many(4), dim=512, most_tokens=3)
    samples.tokens[:, :16] *= 100
    keys = inca.project(samples, attention)
    voices = Voices.prepare(q, v, attention)
    assert voices.reach * float(keys.keys.norm(dim=-1).max()) > 88 > SAFE_EXPONENT  # float32 ends at exp(88)
    torch.testing.assert_close(voices.answer(keys), inca.forward(q, v, keys, attention).logits, **CLOSE)


def test_an_answer_stays_when_its_memory_is_used_again():
    attention = frozen_attention(8, Recipe(heads=2), 3)
    few, lots = (embed(many(9), dim=8, most_tokens=most) for most in (2, 6))
    voices = Voices.prepare(*drawn(5, 8), attention)
    first = voices.logits(few)
    kept = first.clone()
    with torch.inference_mode():
        second = voices.logits(lots)
    assert torch.equal(first, kept) and torch.equal(voices.logits(few), kept)
    assert torch.equal(voices.logits(lots), second)
    fresh = Voices.prepare(*drawn(5, 8), attention)
    assert torch.equal(fresh.logits(lots), second)
