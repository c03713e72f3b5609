"""The content of a report, as values, and what its text says about certificates; `page` renders it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardgraph.forget import GraphView

REBUILT, GONE = "rebuilt", "gone"


@dataclass(frozen=True)
class Bar:
    """One bar: a share from 0 to 1 and its text; `main` bars have the accent colour."""

    name: str
    share: float
    words: str
    main: bool = True


@dataclass(frozen=True)
class Picture:
    """A PNG and its caption."""

    png: bytes
    words: str


@dataclass(frozen=True)
class Content:
    """Everything in a report, from top to bottom; empty parts are left out."""

    title: str
    lead: str
    figures: tuple[tuple[str, str], ...]  # the numbers at the top: (name, value)
    graph: "GraphView | None" = None
    touched: dict[str, str] = field(default_factory=dict)  # shard -> REBUILT or GONE
    drawing_words: str = ""
    accuracy: tuple[Bar, ...] = ()
    accuracy_words: str = ""
    cost: tuple[Bar, ...] = ()
    cost_words: str = ""
    models: tuple[tuple[str, str], ...] = ()  # (name, digest), expected to be equal
    pictures: tuple[Picture, ...] = ()
    pictures_words: str = ""
    certificates: tuple[dict[str, Any], ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


# What a certificate proves. These sentences must claim no more than docs/guarantees.md.
PROVED = (
    "When it was signed, the served model had exactly this digest, and the holder of the signing key attests that it "
    "was built without the samples named here.",
    "Anyone who has the retained samples can rebuild the model and must get the same digest: `shardgraph verify "
    "--full` does this.",
    "The person who asked can check with the nonce that the sample is among those forgotten. Nobody else can tell "
    "from the certificate which samples it names.",
    "Of the certificates up to the last one that you know, none was removed or changed: each contains the digest of "
    "the one before.",
)
PROVED_WITH_PRIVATE_EDGES = (
    "When it was signed, the served model had this digest, and the holder of the signing key attests that every "
    "adapter that used the samples named here directly was rebuilt without them.",
    "Adapters that used them privately were kept. The guarantee says how close these are to adapters that never saw "
    "them: within a factor e^alpha and a probability beta. Nobody can rebuild them, because their noise is not kept.",
    *PROVED[2:],
)
NOT_PROVED = (
    "That there is no other copy: in old blocks of a disk, in a backup, in the table that was added, in another sample "
    "with the same content (`shardgraph twins` searches for those).",
    "That the signer is honest. The certificate is evidence that can be checked against the data, not a proof for "
    "somebody who cannot see the data.",
    "That the pretrained backbone never saw the sample: others trained it, on other data, and it forgets nothing.",
    "That predictions made before can be withdrawn.",
)
