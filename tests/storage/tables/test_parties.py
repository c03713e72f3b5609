"""Sources, consumers and tokens: what is kept about them, and what is dropped with their last sample."""

from shardgraph.storage.tables import inventory, parties
from shardgraph.storage.tables.inventory import Row
from shardgraph.storage.tables.parties import Grant, ProvisionedGroup, Terms, Token

ANN = Row("a1", "cat", "ann", "", "train", "shard:x")
BOB = Row("b1", "cat", "bob", "", "train", "shard:x")


def test_what_is_known_about_a_source_is_replaced_and_dropped(catalogue):
    with catalogue.transaction() as transaction:
        parties.describe_source(transaction, "ann", Terms("Ann"))
        parties.describe_source(transaction, "ann", Terms("Ann", "until 2031", 0.5))
        parties.describe_source(transaction, "bob", Terms("Bob"))
        inventory.add_samples(transaction, [ANN])
        parties.drop_empty_sources(transaction, ["ann", "bob"])
    assert parties.described_sources(catalogue) == {"ann": Terms("Ann", "until 2031", 0.5)} and not catalogue.dirty
    with catalogue.transaction() as transaction:
        parties.clear_source(transaction, "ann")
    assert parties.described_sources(catalogue) == {} and catalogue.dirty


def test_a_grant_without_anything_is_no_grant(catalogue):
    shop = Grant("shop", ("ann", "bob"), ("x",), False)
    with catalogue.transaction() as transaction:
        parties.save_grant(transaction, shop)
        parties.save_grant(transaction, Grant("other", (), ("x",), True))
    assert parties.find_grants(catalogue) == {"other": Grant("other", (), ("x",), True), "shop": shop}
    assert parties.find_grant(catalogue, "shop") == shop and inventory.is_provisioning(catalogue)
    with catalogue.transaction() as transaction:
        parties.save_grant(transaction, Grant("other", (), (), True))
    assert parties.find_grant(catalogue, "other") is None and not inventory.is_provisioning(catalogue)
    with catalogue.transaction() as transaction:
        parties.set_provision(transaction, "shop")
    assert parties.find_grant(catalogue, "shop").provision


def test_rights_lose_what_has_no_sample_left(catalogue):
    with catalogue.transaction() as transaction:
        inventory.add_samples(transaction, [ANN])
        parties.save_grant(transaction, Grant("shop", ("ann", "bob"), ("x", "y"), False))
        parties.drop_empty_rights(transaction, [ANN, BOB, Row("b2", "cat", "bob", "", "train", "shard:y")])
    assert parties.find_grant(catalogue, "shop") == Grant("shop", ("ann",), ("x",), False)


def test_groups_are_kept_for_a_consumer_while_their_keys_are_wanted(catalogue):
    groups = [ProvisionedGroup("shop", name, f"k-{name}", "d", 4, 2, ("shard:x", "shard:y")) for name in "abc"]
    other = ProvisionedGroup("other", "a", "k", "d", 4, 2, ())
    with catalogue.transaction() as transaction:
        for group in (*groups, other):
            parties.record_provisioned(transaction, group)
    assert parties.provisioned_groups(catalogue) == [other, *groups]
    with catalogue.transaction() as transaction:
        parties.keep_provisioned(transaction, "shop", {"a": "k-a", "b": "another"})
    assert parties.provisioned_groups(catalogue, "shop") == groups[:1]
    with catalogue.transaction() as transaction:
        inventory.clear_built_keys(transaction)
        parties.remove_provisioned(transaction, [("other", "a")])
    assert [group.key for group in parties.provisioned_groups(catalogue)] == [""]


def test_a_revoked_token_keeps_its_name(catalogue):
    token = Token("op", "owner", ("ann", "bob"), "hash", "2026-01-01")
    assert not parties.any_token(catalogue)
    with catalogue.transaction() as transaction:
        parties.save_token(transaction, token)
    assert parties.find_tokens(catalogue) == [token] and parties.find_token(catalogue, "op") == token
    with catalogue.transaction() as transaction:
        assert parties.revoke_token(transaction, "op")
        assert not parties.revoke_token(transaction, "op") and not parties.revoke_token(transaction, "nobody")
    assert parties.find_tokens(catalogue) == [] and parties.find_token(catalogue, "op").hash == ""
    assert parties.any_token(catalogue) and parties.find_token(catalogue, "nobody") is None
