"""A request to forget, and what it names."""

from dataclasses import asdict, dataclass
from typing import Any

from shardgraph.errors import check_list, check_text

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

    def to_json(self) -> dict[str, Any]:
        """The request as a plain dict."""
        return asdict(self)
