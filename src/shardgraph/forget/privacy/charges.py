"""Charges: what groups with private edges have released, and what every removal costs them.

The catalogue holds one `Charges`. A build is recorded before its training starts, because even an interrupted training
has drawn noise for somebody's data. A removal is recorded in the transaction that accepts its erasure. A crash can
therefore not lose a charge, and a repeated request, for which no erasure is accepted, charges nothing.
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
from shardgraph.storage.tables import inventory, ledger

GONE = "gone:"  # prefix of the random name that replaces the name of an emptied shard, and of its group
_GONE = re.compile(GONE + "[0-9a-f]{32}")


@dataclass(frozen=True)
class Charge:
    """`count` samples leave a shard; these groups have used them privately and are kept."""

    shard: str
    count: int
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Spending:
    """What an erasure spends: the guarantee before and after, the groups charged, those rebuilt instead (`over`)."""

    before: Guarantee
    after: Guarantee
    budget: Budget
    charged: tuple[str, ...]
    over: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The figures as a plain dict."""
        return {
            "groups_charged": len(self.charged),
            "groups_over_budget": len(self.over),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "budget": asdict(self.budget),
        }


@dataclass(frozen=True)
class Charges:
    """Releases and removals, by group.

    reads     the shards whose samples each group's builds have used privately
    numbers   a random number for each group's last build; in the group's key it replaces the private inputs
    """

    releases: Releases = field(default_factory=Releases)
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)

    def begun(self, reads: Mapping[str, Iterable[str]], mechanism: Mechanism) -> "Charges":
        """The charges once these groups start training, each with the shards that it uses privately."""
        releases = self.releases
        for group in reads:
            releases = releases.begun(group, mechanism)
        wider = {group: tuple(sorted({*self.reads.get(group, ()), *shards})) for group, shards in reads.items()}
        fresh = {group: os.urandom(16).hex() for group in reads}
        return Charges(releases, {**self.reads, **wider}, {**self.numbers, **fresh})

    def charges(self, leaving: Mapping[str, int], kept: Collection[str]) -> tuple[Charge, ...]:
        """The charges of the `kept` groups when these numbers of samples leave the shards."""
        readers = {shard: tuple(g for g in self.readers(shard) if g in kept) for shard in sorted(leaving)}
        return tuple(Charge(shard, leaving[shard], groups) for shard, groups in readers.items() if groups)

    def charged(self, charges: Iterable[Charge]) -> "Charges":
        """The charges with these added."""
        releases = self.releases
        for charge in charges:
            releases = releases.after_removal(charge.groups, charge.count)
        return replace(self, releases=releases)

    def settled(self, groups: Collection[str]) -> "Charges":
        """The charges once these groups are rebuilt or no longer served: their removals are dropped, releases stay."""
        return replace(self, releases=self.releases.settled(groups))

    def present(self, shards: Collection[str]) -> "Charges":
        """The charges with random names in place of those of empty shards.

        The releases of their groups stay, and so does the record of which groups used the same shard: those groups
        share one guarantee.
        """
        known = {group for group, _ in self.releases.builds} | {shard for read in self.reads.values() for shard in read}
        names = {name: name for name in known}
        names |= {name: GONE + os.urandom(16).hex() for name in known if name not in shards and not is_gone(name)}
        reads = {names[group]: tuple(sorted(names[s] for s in read)) for group, read in self.reads.items()}
        numbers = {group: number for group, number in self.numbers.items() if group in shards}
        gone = {name for name in known if names[name] != name}
        return Charges(self.releases.settled(gone).renamed(names), reads, numbers)

    def readers(self, shard: str) -> tuple[str, ...]:
        """The groups whose builds have used samples of this shard privately, including groups that no longer exist."""
        return self._readers.get(shard, ())

    def cliques(self) -> tuple[frozenset[str], ...]:
        """The groups, in sets that share no samples; each set has its own guarantee."""
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

    def to_json(self) -> dict[str, Any]:
        """The charges as plain dicts and lists."""
        return {"releases": self.releases.to_json(), "reads": dict(self.reads), "numbers": dict(self.numbers)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Charges":
        """The charges that `to_json` wrote."""
        reads = {group: tuple(shards) for group, shards in value["reads"].items()}
        return cls(Releases.from_json(value["releases"]), reads, value["numbers"])

    @classmethod
    def load(cls, catalogue: Catalogue) -> "Charges":
        """The charges of a workspace; empty where nothing was private yet."""
        account = ledger.privacy_account(catalogue)
        return cls.from_json(json.loads(account)) if account else cls()

    def save(self, transaction: Transaction) -> None:
        """Write the charges."""
        ledger.save_privacy_account(transaction, canonical_json(self.to_json()).decode())


def spend(
    charges: Charges, terms: PrivacyTerms, leaving: Mapping[str, int], served: Collection[str], dropped: Collection[str]
) -> tuple[tuple[Charge, ...], Spending]:
    """The charges when these numbers of samples leave the shards, for groups that are served and not dropped anyway.

    Groups that would exceed the budget are listed in `over`; nothing is charged to them, because they are rebuilt.
    """
    kept = set(served) - set(dropped)
    charged = charges.charged(charges.charges(leaving, kept)).releases.of(kept)
    cliques = [clique & kept for clique in charges.cliques()]
    over = {name for clique in cliques for name in to_rebuild(charged.of(clique), terms.budget, terms.delta)}
    due = charges.charges(leaving, kept - over)
    after = replace(charges, releases=charges.charged(due).releases.of(kept - over))
    names = sorted({name for charge in due for name in charge.groups})
    figures = (worst_guarantee(charges, terms), worst_guarantee(after, terms), terms.budget)
    return due, Spending(*figures, tuple(names), tuple(sorted(over)))


def worst_guarantee(charges: Charges, terms: PrivacyTerms) -> Guarantee:
    """How close the groups are to groups that never saw the samples removed since they were built: the worst clique."""
    found = [guarantee(charges.releases.of(clique), terms.budget, terms.delta) for clique in charges.cliques()]
    return max(found, key=lambda each: (each.alpha, each.beta), default=Guarantee(0.0, 0.0, "none", 0))


def joint_guarantee(charges: Charges, terms: PrivacyTerms) -> Guarantee:
    """The same for all groups together, and all samples that were removed from any of them."""
    return guarantee(charges.releases, terms.budget, terms.delta)


def is_gone(name: str) -> bool:
    """Whether this is the random name of an emptied shard."""
    return _GONE.fullmatch(name) is not None


def worst_loss(charges: Charges, terms: PrivacyTerms) -> tuple[float, str]:
    """The privacy loss of a sample to all models so far, at the terms' delta: (epsilon, method) of the worst shard."""
    shards = {shard for read in charges.reads.values() for shard in read}
    return max(
        (sample_loss(charges.releases, charges.readers(shard), terms.delta) for shard in shards), default=(0.0, "none")
    )


def removals_left(charges: Charges, terms: PrivacyTerms, kept: Collection[str]) -> dict[str, tuple[int, int]]:
    """For every shard that others use privately: how many samples may still leave it, and how many could at first."""
    found = {}
    for clique in charges.cliques():
        releases = charges.releases.of(clique & set(kept))
        fresh = Releases(releases.builds)
        for shard in sorted({shard for group in clique for shard in charges.reads[group] if not is_gone(shard)}):
            readers = [group for group in charges.readers(shard) if group in kept]
            if readers:
                now, first = (left(each, readers, terms.budget, terms.delta) for each in (releases, fresh))
                found[shard] = (now, first)
    return found


def load_charges(catalogue: Catalogue) -> Charges:
    """The charges of a workspace; empty where nothing was private yet."""
    return Charges.load(catalogue)


def settle_group(catalogue: Catalogue, transaction: Transaction, name: str) -> None:
    """Record that a group was rebuilt: the charges of the adapters that it replaces are removed."""
    Charges.load(catalogue).settled([name]).save(transaction)


def charge_removal(
    catalogue: Catalogue, transaction: Transaction, rebuilt: Collection[str], due: Iterable[Charge]
) -> None:
    """Charge the kept groups that used the leaving samples privately, in the transaction that removes the samples.

    The names of shards that become empty are replaced by random ones.
    """
    units = inventory.occupied_units(catalogue)
    present = {unit.removeprefix("shard:") for unit in units}
    Charges.load(catalogue).settled(rebuilt).charged(due).present(present).save(transaction)
