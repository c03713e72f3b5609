"""A request to forget, and what it names."""

from dataclasses import asdict, dataclass
from typing import Any

KINDS = {
    "samples": "id",
    "sources": "source",
    "subjects": "subject",
    "labels": "label",
}  # to catalogue columns


@dataclass(frozen=True)
class ForgetRequest:
    """What should be forgotten: samples, and all samples of sources, subjects, shards or labels."""

    samples: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    reason: str = ""

    def selectors(self) -> list[tuple[str, str]]:
        """Every (kind, name) that was asked for, once each."""
        kinds = ("samples", "sources", "subjects", "shards", "labels")
        return sorted({(kind, name) for kind in kinds for name in getattr(self, kind)})

    def to_json(self) -> dict[str, Any]:
        """The request as a plain dict."""
        return asdict(self)
