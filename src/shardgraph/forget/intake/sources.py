"""What is known about sources: owner, terms, and how much of them may be asked back."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from shardgraph.errors import InputError
from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.tables import inventory, parties
from shardgraph.storage.tables.parties import Terms


@dataclass(frozen=True)
class SourceTerms:
    """One source; `rate` is the share of its samples expected to be asked back in a year, None if nobody said."""

    samples: int = 0
    owner: str = ""
    terms: str = ""
    rate: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The source as a plain dict."""
        return asdict(self)


def terms_by_source(catalogue: Catalogue) -> dict[str, SourceTerms]:
    """Every named source that has samples or terms."""
    counts, told = inventory.count_by_source(catalogue), parties.described_sources(catalogue)
    known = {name: told.get(name, Terms()) for name in sorted(counts.keys() | told.keys())}
    return {name: SourceTerms(counts.get(name, 0), of.owner, of.terms, of.rate) for name, of in known.items()}


def set_terms(
    catalogue: Catalogue, name: str, *, owner: str | None, terms: str | None, rate: float | None
) -> SourceTerms:
    """Keep what is given about a source, and what was known already where nothing is."""
    known = terms_by_source(catalogue)
    if name not in known:
        raise InputError(f"a source must have samples here, got {name!r}; add them first")
    if rate is not None and not (math.isfinite(rate) and 0 <= rate <= 1):
        raise InputError(f"a rate must be a share from 0 to 1, got {rate}")
    old = known[name]
    new = SourceTerms(
        old.samples,
        old.owner if owner is None else owner,
        old.terms if terms is None else terms,
        old.rate if rate is None else rate,
    )
    with catalogue.transaction() as transaction:
        parties.describe_source(transaction, name, Terms(new.owner, new.terms, new.rate))
    return new


def clear_terms(catalogue: Catalogue, name: str) -> None:
    """Drop what is known about a source."""
    with catalogue.transaction() as transaction:
        parties.clear_source(transaction, name)
    catalogue.scrub()


def forget_terms(transaction: Transaction, names: Iterable[str]) -> None:
    """Within a forget: drop what is known about those of the sources that have no sample left."""
    parties.drop_empty_sources(transaction, names)
