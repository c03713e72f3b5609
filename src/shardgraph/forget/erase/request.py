"""A request to forget, and what it names."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from shardgraph.errors import check_list, check_text
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.tables import erasures

KINDS = {
    "samples": "id",
    "sources": "source",
    "subjects": "subject",
    "labels": "label",
}  # to catalogue columns
NAMED = ("samples", "sources", "subjects", "shards", "labels")


@dataclass(frozen=True)
class ForgetRequest:
    """What should be forgotten: samples, and all samples of sources, subjects, shards or labels."""

    samples: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        for kind in NAMED:
            check_list(getattr(self, kind), f"the {kind} of a request")
            check_text(getattr(self, kind), f"the {kind} of a request")
        check_text((self.reason,), "the reason of a request")

    def selectors(self) -> list[tuple[str, str]]:
        """Every (kind, name) that was asked for, once each."""
        return sorted({(kind, name) for kind in NAMED for name in getattr(self, kind)})

    def named(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every kind with its names."""
        return [(kind, getattr(self, kind)) for kind in NAMED]

    def to_json(self) -> dict[str, Any]:
        """The request as a plain dict."""
        return asdict(self)


def forgotten_before(catalogue: Catalogue, keys: Keys, named: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Those of the (kind, name) pairs that were forgotten before, with the certificate that says so."""
    marks = {keys.mark(kind, name): (kind, name) for kind, name in named}
    found = erasures.certificates_of(catalogue, list(marks))
    return {marks[mark]: found[mark] for mark in marks if mark in found}
