"""Charges: what groups with private edges have released, and what every removal costs them, kept durably.

The catalogue holds one `Book`. It changes in the transaction of the act itself: a build is entered before its training
starts, since even one that dies has drawn noise around somebody's data; a removal together with the request that asks
for it. So no crash undercharges, and repeating a request, which accepts nothing, charges nothing.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from shardgraph.digest import canonical_json
from shardgraph.learn.private.accounting.budget import Budget
from shardgraph.learn.private.accounting.closeness import Guarantee, guarantee, left, sample_loss, to_rebuild
from shardgraph.learn.private.accounting.mechanism import Mechanism
from shardgraph.learn.private.accounting.releases import Releases
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.tables import ledger

GONE = "gone:"  # before the random name of a shard that is no longer there, and of its group
_GONE = re.compile(GONE + "[0-9a-f]{32}")


@dataclass(frozen=True)
class Charge:
    """`count` samples of a shard leave, which these groups have used privately and keep."""

    shard: str
    count: int
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Spending:
    """What a forget spends: the guarantee before and after it, the groups charged, and those built anew instead."""

    before: Guarantee
    after: Guarantee
    budget: Budget
    charged: tuple[str, ...]
    over: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The figures, for a person or a script."""
        return {
            "groups_charged": len(self.charged),
            "groups_over_budget": len(self.over),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "budget": asdict(self.budget),
        }


@dataclass(frozen=True)
class Book:
    """Releases and removals, by group.

    reads     the shards whose samples each group's builds have used privately
    numbers   a random number for each group's last build, which stands in its key for what it used privately
    """

    releases: Releases = field(default_factory=Releases)
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)

    def begun(self, reads: Mapping[str, Iterable[str]], mechanism: Mechanism) -> "Book":
        """These groups are about to be trained, and to use the samples of these shards privately."""
        releases = self.releases
        for group in reads:
            releases = releases.begun(group, mechanism)
        wider = {group: tuple(sorted({*self.reads.get(group, ()), *shards})) for group, shards in reads.items()}
        fresh = {group: os.urandom(16).hex() for group in reads}
        return Book(releases, {**self.reads, **wider}, {**self.numbers, **fresh})

    def charges(self, leaving: Mapping[str, int], kept: Collection[str]) -> tuple[Charge, ...]:
        """What the removal of so many samples from each shard costs the groups that are `kept`."""
        readers = {shard: tuple(g for g in self.readers(shard) if g in kept) for shard in sorted(leaving)}
        return tuple(Charge(shard, leaving[shard], groups) for shard, groups in readers.items() if groups)

    def charged(self, charges: Iterable[Charge]) -> "Book":
        """The book with these charges entered."""
        releases = self.releases
        for charge in charges:
            releases = releases.after_removal(charge.groups, charge.count)
        return replace(self, releases=releases)

    def settled(self, groups: Collection[str]) -> "Book":
        """The book when these groups are trained, or served no more: nothing is charged to them; releases stay."""
        return replace(self, releases=self.releases.settled(groups))

    def present(self, shards: Collection[str]) -> "Book":
        """The book without the names of shards that hold nothing any more.

        What their groups released stays, and so does who had read the same shard: those are close only together.
        """
        known = {group for group, _ in self.releases.builds} | {shard for read in self.reads.values() for shard in read}
        names = {name: name for name in known}
        names |= {name: GONE + os.urandom(16).hex() for name in known if name not in shards and not is_gone(name)}
        reads = {names[group]: tuple(sorted(names[s] for s in read)) for group, read in self.reads.items()}
        numbers = {group: number for group, number in self.numbers.items() if group in shards}
        gone = {name for name in known if names[name] != name}
        return Book(self.releases.settled(gone).renamed(names), reads, numbers)

    def readers(self, shard: str) -> tuple[str, ...]:
        """The groups, those that are gone included, whose builds have used samples of this shard privately."""
        return self._readers.get(shard, ())

    def cliques(self) -> tuple[frozenset[str], ...]:
        """The groups, in sets that share no sample: each set has a guarantee of its own."""
        clique = {group: {group} for group in self.reads}
        for first, *others in self._readers.values():
            for other in others:
                if clique[other] is not clique[first]:
                    clique[first] |= clique[other]
                    clique |= dict.fromkeys(clique[other], clique[first])
        return tuple(frozenset(each) for each in {id(each): each for each in clique.values()}.values())

    @cached_property
    def _readers(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for group, shards in sorted(self.reads.items()):
            for shard in shards:
                found.setdefault(shard, []).append(group)
        return {shard: tuple(groups) for shard, groups in sorted(found.items())}

    def to_json(self) -> dict:
        """The book as plain dicts and lists."""
        return {"releases": self.releases.to_json(), "reads": dict(self.reads), "numbers": dict(self.numbers)}

    @classmethod
    def from_json(cls, value: Mapping) -> "Book":
        """The book that `to_json` wrote."""
        reads = {group: tuple(shards) for group, shards in value["reads"].items()}
        return cls(Releases.from_json(value["releases"]), reads, value["numbers"])

    @classmethod
    def load(cls, catalogue: Catalogue) -> "Book":
        """The book of a workspace; an empty one where nothing was private yet."""
        account = ledger.privacy_account(catalogue)
        return cls.from_json(json.loads(account)) if account else cls()

    def save(self, transaction: Transaction) -> None:
        """Write the book."""
        ledger.save_privacy_account(transaction, canonical_json(self.to_json()).decode())


def spend(
    book: Book, terms: PrivacyTerms, leaving: Mapping[str, int], served: Collection[str], dropped: Collection[str]
) -> tuple[tuple[Charge, ...], Spending]:
    """What the removal of so many samples of each shard costs the groups that are served and not dropped anyway.

    Those that it would take over the budget are named in `over`, and nothing is charged to them: they are built anew.
    """
    kept = set(served) - set(dropped)
    charged = book.charged(book.charges(leaving, kept)).releases.of(kept)
    cliques = [clique & kept for clique in book.cliques()]
    over = {name for clique in cliques for name in to_rebuild(charged.of(clique), terms.budget, terms.delta)}
    charges = book.charges(leaving, kept - over)
    after = replace(book, releases=book.charged(charges).releases.of(kept - over))
    names = sorted({name for charge in charges for name in charge.groups})
    figures = (worst_guarantee(book, terms), worst_guarantee(after, terms), terms.budget)
    return charges, Spending(*figures, tuple(names), tuple(sorted(over)))


def worst_guarantee(book: Book, terms: PrivacyTerms) -> Guarantee:
    """How close the groups are to never having seen what was removed since they were built: the worst clique's."""
    found = [guarantee(book.releases.of(clique), terms.budget, terms.delta) for clique in book.cliques()]
    return max(found, key=lambda each: (each.alpha, each.beta), default=Guarantee(0.0, 0.0, "none", 0))


def joint_guarantee(book: Book, terms: PrivacyTerms) -> Guarantee:
    """The same for all groups together, and all that was removed from any of them."""
    return guarantee(book.releases, terms.budget, terms.delta)


def is_gone(name: str) -> bool:
    """Whether this is the random name of a shard that is no longer there."""
    return _GONE.fullmatch(name) is not None


def worst_loss(book: Book, terms: PrivacyTerms) -> tuple[float, str]:
    """What a sample has lost to all models so far, at the terms' delta: (epsilon, method) of the worst shard."""
    shards = {shard for read in book.reads.values() for shard in read}
    return max(
        (sample_loss(book.releases, book.readers(shard), terms.delta) for shard in shards), default=(0.0, "none")
    )


def removals_left(book: Book, terms: PrivacyTerms, kept: Collection[str]) -> dict[str, tuple[int, int]]:
    """For every shard that others use privately, how many of its samples may still leave, of how many at first."""
    found = {}
    for clique in book.cliques():
        releases = book.releases.of(clique & set(kept))
        fresh = Releases(releases.builds)
        for shard in sorted({shard for group in clique for shard in book.reads[group] if not is_gone(shard)}):
            readers = [group for group in book.readers(shard) if group in kept]
            if readers:
                now, first = (left(each, readers, terms.budget, terms.delta) for each in (releases, fresh))
                found[shard] = (now, first)
    return found
