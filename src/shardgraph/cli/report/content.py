"""What a report says, as values; `page` writes it down."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardgraph.forget.views.graph_view import Portrait

REBUILT, GONE = "rebuilt", "gone"


@dataclass(frozen=True)
class Bar:
    """One bar: a share from 0 to 1, and what stands beside it; the main one is drawn in the accent colour."""

    name: str
    share: float
    words: str
    main: bool = True


@dataclass(frozen=True)
class Picture:
    """A PNG and what it shows."""

    png: bytes
    words: str


@dataclass(frozen=True)
class Content:
    """All that stands in a report, from top to bottom; what is empty is left out."""

    title: str
    lead: str
    figures: tuple[tuple[str, str], ...]  # the few numbers at the top: (what, value)
    portrait: "Portrait | None" = None
    touched: dict[str, str] = field(default_factory=dict)  # shard -> rebuilt or gone
    drawing_words: str = ""
    accuracy: tuple[Bar, ...] = ()
    accuracy_words: str = ""
    cost: tuple[Bar, ...] = ()
    cost_words: str = ""
    models: tuple[tuple[str, str], ...] = ()  # (who, digest), said to be equal
    pictures: tuple[Picture, ...] = ()
    pictures_words: str = ""
    certificates: tuple[dict[str, Any], ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
