"""The charges as a value: who read what, who shares samples, what leaves with a shard."""

import json

from hypothesis import given
from hypothesis import strategies as st

from shardgraph.forget.privacy.charges import (
    GONE,
    Charge,
    Charges,
    joint_guarantee,
    removals_left,
    spend,
    worst_guarantee,
    worst_loss,
)
from shardgraph.learn.private.accounting.budget import PAPER
from shardgraph.learn.private.accounting.mechanism import Mechanism
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.private.private_recipe import PrivateRecipe

BUILD = Mechanism(1.0, 30.0, 4)
TERMS = PrivacyTerms(2.0, 1e-20, PAPER, recipe=PrivateRecipe(noise=30.0, steps=4))
RING = Charges().begun({"a": ["b"], "b": ["c"], "c": ["a"]}, BUILD)
READS = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))


@given(reads=READS)
def test_cliques_are_the_groups_that_share_samples(reads):
    charges = Charges().begun(reads, BUILD)
    cliques = charges.cliques()
    assert sorted(group for clique in cliques for group in clique) == sorted(reads)
    where = {group: i for i, clique in enumerate(cliques) for group in clique}
    for shard in "abcdef":
        assert charges.readers(shard) == tuple(sorted(group for group in reads if shard in reads[group]))
        assert len({where[group] for group in charges.readers(shard)}) <= 1
    # and no clique falls apart: what can be reached from one group by shared shards is all of it
    for clique in cliques:
        reached, before = {min(clique)}, set()
        while reached != before:
            before, shards = reached, {shard for group in reached for shard in reads[group]}
            reached = {group for group in reads if group in before or shards & set(reads[group])}
        assert reached == clique


@given(reads=READS, kept=st.sets(st.sampled_from("abcdef")))
def test_a_book_survives_json_and_keeps_its_releases_when_shards_go(reads, kept):
    charges = Charges().begun(reads, BUILD)
    assert Charges.from_json(json.loads(json.dumps(charges.to_json()))) == charges
    left = charges.present(kept)
    assert len(left.releases.mechanisms()) == len(reads), "what was released stays released"
    names = {name for name, _ in left.releases.builds} | {shard for read in left.reads.values() for shard in read}
    assert all(name in kept or name.startswith(GONE) for name in names)
    assert left.present(kept) == left


def test_who_read_a_shard_that_is_gone_stays_together():
    """a, b and c are close only jointly: what left was known to all of them."""
    charges = (
        Charges()
        .begun({"a": ["s", "x"], "b": ["s", "y"], "c": ["s"]}, BUILD)
        .charged([Charge("s", 3, ("a", "b", "c"))])
    )
    left = charges.present({"a", "b", "c", "x", "y"})
    assert left.cliques() == charges.cliques() and worst_guarantee(left, TERMS) == worst_guarantee(charges, TERMS)
    assert worst_loss(left, TERMS) == worst_loss(charges, TERMS)
    assert set(removals_left(left, TERMS, "abc")) == {"x", "y"}, "nothing can leave a shard that is gone"


def test_sets_that_share_nothing_are_close_together_by_the_sum_of_what_left():
    charged = RING.charged([Charge("b", 1, ("a",)), Charge("c", 2, ("b",))])
    together = joint_guarantee(charged, TERMS)
    assert together.removed == 3 and together.alpha > worst_guarantee(charged, TERMS).alpha


def test_a_build_has_a_number_of_its_own_and_settles_what_was_charged_when_it_is_done():
    charged = RING.charged([Charge("b", 2, ("a",)), Charge("c", 1, ("b",))])
    begun = charged.begun({"a": ["b", "d"]}, BUILD)
    assert begun.releases.removed("a") == 2, "the old adapters are still there"
    again = begun.settled(["a"])
    assert again.releases.removed("a") == 0 and again.releases.removed("b") == 1
    assert again.numbers["a"] != charged.numbers["a"] and again.numbers["b"] == charged.numbers["b"]
    assert again.reads["a"] == ("b", "d") and len(again.releases.mechanisms(["a"])) == 2


def test_groups_that_share_nothing_have_a_guarantee_each():
    """A ring in which everybody reads one other: every group is a clique of its own."""
    charged = RING.charged([Charge("b", 1, ("a",)), Charge("c", 1, ("b",))])
    alone = RING.charged([Charge("b", 1, ("a",))])
    assert worst_guarantee(charged, TERMS) == worst_guarantee(alone, TERMS)
    left = removals_left(charged, TERMS, "abc")
    assert left["a"][0] == left["a"][1] and left["b"][0] == left["b"][1] - 1


def test_only_groups_that_are_served_and_stay_pay():
    charges, spending = spend(RING, TERMS, {"b": 2, "c": 1, "a": 1}, served=["a", "b"], dropped=["b"])
    assert charges == (Charge("b", 2, ("a",)),) and spending.charged == ("a",) and spending.over == ()
    many, spending = spend(RING, TERMS, {"b": 10_000}, served=["a", "b", "c"], dropped=[])
    assert many == () and spending.over == ("a",), "it is trained anew instead"
