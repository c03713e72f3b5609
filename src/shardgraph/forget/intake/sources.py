"""Sources: their owners, their terms, and the share of each that is expected to be withdrawn in a year."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from shardgraph.errors import InputError
from shardgraph.forget.context import Context
from shardgraph.forget.erase.recovery import writing
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import inventory, parties
from shardgraph.storage.tables.parties import Terms


@dataclass(frozen=True)
class SourceTerms:
    """One source; `rate` is the share of its samples expected to be withdrawn in a year, None if not given."""

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


class Sources:
    """The sources of one workspace, and their terms."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def terms(self) -> dict[str, SourceTerms]:
        """Every source that has samples or was described, with its terms."""
        return terms_by_source(self._context.catalogue)

    def describe(
        self, name: str, *, owner: str | None = None, terms: str | None = None, rate: float | None = None
    ) -> SourceTerms:
        """Store who gave a source, on what terms, and which share of it is expected to be withdrawn in a year.

        Values that are not given stay as they were.
        """
        with writing(self._context):
            known = self.terms()
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
            with self._context.catalogue.transaction() as transaction:
                parties.describe_source(transaction, name, Terms(new.owner, new.terms, new.rate))
        return new

    def clear(self, name: str) -> None:
        """Delete the description of a source; its samples stay."""
        with writing(self._context):
            with self._context.catalogue.transaction() as transaction:
                parties.clear_source(transaction, name)
            self._context.catalogue.scrub()
