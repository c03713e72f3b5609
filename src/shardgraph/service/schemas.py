"""What goes over the wire, with examples."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from shardgraph.forget.erase.request import ForgetRequest
from shardgraph.forget.queue.queue import Entry

MOST_NAMES, MOST_SAMPLES = 10_000, 4096
MOST_TOKENS, MOST_TOKENS_EACH = 65_536, 4096  # of a call, and of one of its samples
Name = Annotated[str, Field(min_length=1, max_length=1024)]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES, fail_fast=True)]  # an error for each would take long
Numbers = Annotated[list[float], Field(fail_fast=True)]
Tokens = Annotated[list[Numbers], Field(max_length=MOST_TOKENS_EACH, fail_fast=True)]
StateName = Literal["received", "instant", "erasing", "retraining", "verified", "done", "failed", "cancelled"]


_ASK: Any = {"samples": ["photo-7"], "reason": "consent withdrawn", "deadline": "2030-01-31T12:00:00Z"}


def _in_utc(value: datetime) -> datetime:
    if not 2000 <= value.year <= 2200:
        raise ValueError("a deadline must be in the years 2000 to 2200")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Strict(BaseModel):
    """What a caller sends: names that are not known are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few(cls, sent: Any) -> Any:
        """Refuse many strange names at once: an error for each would hold everybody up."""
        if isinstance(sent, dict) and len(sent) > len(cls.model_fields):
            raise ValueError(f"these names are read here and no others: {', '.join(cls.model_fields)}")
        return sent


class Selection(Strict):
    """What should be forgotten: samples, and all samples of sources, subjects, shards or labels."""

    samples: Names = []
    sources: Names = []
    subjects: Names = []
    shards: Names = []
    labels: Names = []
    twins: bool = Field(False, description="Also the samples that hold the same content, exactly or nearly.")
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"samples": ["photo-7"]}]})

    def to_request(self, reason: str = "") -> ForgetRequest:
        """The request that this makes."""
        kinds = (self.samples, self.sources, self.subjects, self.shards, self.labels)
        samples, sources, subjects, shards, labels = (tuple(names) for names in kinds)
        return ForgetRequest(samples, sources, subjects, shards, labels, reason)


class Ask(Selection):
    """A forget request."""

    reason: str = Field("", max_length=500, description="Kept with the request; name nobody here.")
    deadline: Annotated[datetime, AfterValidator(_in_utc)] | None = Field(
        None, description="When it should be done, not past; the nearest goes first. Without one: in thirty days."
    )
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_ASK]})


class Closeness(BaseModel):
    """How close groups with private edges are to ones that never saw the samples removed since they were built."""

    alpha: float = Field(examples=[4.0])
    beta: float = Field(examples=[1e-9])
    method: str = Field(examples=["formula/pld"])
    removed: int = Field(examples=[2])


class Bound(BaseModel):
    """How far from that they may be."""

    alpha: float = Field(examples=[10.0])
    beta: float = Field(examples=[0.001])
    name: str = Field(examples=["default"])


class Privacy(BaseModel):
    """What a forget spends of the budget of private edges."""

    groups_charged: int = Field(description="Groups that used the samples privately, and stay in service.")
    groups_over_budget: int = Field(description="Groups that are built anew, for they have no budget left for it.")
    before: Closeness
    after: Closeness
    budget: Bound


class Preview(BaseModel):
    """What a forget would do; nothing has changed."""

    samples: int = Field(examples=[1])
    groups_to_rebuild: int = Field(examples=[4])
    groups_that_vanish: int = Field(examples=[0])
    adapters_to_rebuild: int = Field(examples=[40])
    samples_to_revisit: int = Field(examples=[1200])
    share_of_full_retraining: float = Field(examples=[0.031])
    classes_that_disappear: list[str]
    sources_that_disappear: list[str]
    already_forgotten: list[int] = Field(description="Certificates of what was forgotten before.")
    twins: list[str] = Field(description="Other samples with the same content, which would stay unless asked for.")
    seconds: float | None = Field(description="About how long, by the last requests; null before the first.")
    privacy: Privacy | None = Field(None, description="What it spends; null in a workspace without private edges.")


class Move(BaseModel):
    """A state that was entered, and when."""

    state: StateName
    time: datetime


class Ticket(BaseModel):
    """A forget request and how far it is."""

    number: int = Field(examples=[12])
    state: StateName
    received: datetime
    deadline: datetime
    asker: str = Field(description="The name of the token that asked.")
    reason: str
    samples: int
    certificate: int | None = Field(description="Its certificate, once it is written; several requests may share one.")
    failure: str = Field(description="Why it failed, to an owner only that it did; what it names stays out of service.")
    history: list[Move] = []

    @classmethod
    def of(cls, entry: Entry) -> "Ticket":
        """The ticket of a queue's entry."""
        facts = {name: getattr(entry, name) for name in cls.model_fields if name != "history"}
        moves = [Move.model_validate({"state": state, "time": time}) for state, time in entry.history]
        return cls(**facts, history=moves)


class Tickets(BaseModel):
    """A page of requests; `next` is the `after` of the page that follows, null on the last one."""

    requests: list[Ticket]
    next: int | None


class Embeddings(Strict):
    """Embeddings to predict: `tokens` [n][t][d], or `features` [n][d] where each is its sample's one token, or both."""

    tokens: Annotated[list[Tokens], Field(max_length=MOST_SAMPLES, fail_fast=True)] | None = None
    features: Annotated[list[Numbers], Field(max_length=MOST_SAMPLES, fail_fast=True)] | None = None
    top: int = Field(1, ge=1, le=1000, description="How many classes to name, the best first.")
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"features": [[0.1, 0.2, 0.3, 0.4]], "top": 3}]}
    )


class Texts(Strict):
    """Texts to predict, for a workspace whose backbone takes texts."""

    texts: Annotated[
        list[Annotated[str, Field(max_length=100_000)]], Field(min_length=1, max_length=256, fail_fast=True)
    ]
    top: int = Field(1, ge=1, le=1000)
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"texts": ["a letter"], "top": 2}]})


class Part(Strict):
    """A part of the data: sources and shards."""

    sources: Names = []
    shards: Names = []
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"sources": ["ann"]}]})


class Entitled(BaseModel):
    """What a consumer may use, and whether groups of that part alone are kept for it."""

    consumer: str = Field(examples=["shop"])
    sources: list[str]
    shards: list[str]
    provision: bool


class Provisioned(BaseModel):
    """How many groups were trained."""

    trained: int


class Scored(BaseModel):
    """A class and its score."""

    label: str = Field(examples=["bee"])
    score: float = Field(examples=[1.73])


class Prediction(BaseModel):
    """The best classes of one sample."""

    top: list[Scored]


class Predictions(BaseModel):
    """Predictions in the order of what was sent, all made in one served state."""

    state: str = Field(description="Opaque; the ledger says what was served under it.", examples=["9f2c" * 8])
    predictions: list[Prediction]


class Line(BaseModel):
    """A line of the ledger; it names no sample."""

    number: int
    time: datetime
    event: str = Field(examples=["serving"])
    detail: dict[str, Any]


class Lines(BaseModel):
    """A page of the ledger; `next` is the `after` of the page that follows, null on the last one."""

    lines: list[Line]
    next: int | None


class Problem(BaseModel):
    """What went wrong: what was asked, what was found, what to do."""

    error: str = Field(examples=["there is no request 99"])
    kind: str = Field(examples=["InputError"])


class Opening(Strict):
    """Samples whose entries in the certificate should be opened."""

    samples: Names = Field(min_length=1)
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"samples": ["photo-7"]}]})


class Nonces(BaseModel):
    """By sample, the nonce that opens its entry in the certificate; give each to the one it concerns."""

    certificate: int
    nonces: dict[str, str] = Field(examples=[{"photo-7": "5f1d" * 16}])


class StateLine(BaseModel):
    """What the ledger says of a served state."""

    state: str
    number: int = Field(description="The line of the ledger from which on it was served.")
    time: datetime
    withheld: list[int] = Field(description="The requests whose data was out of service, not erased yet.")
    adapters: int


class PublicKey(BaseModel):
    """The Ed25519 key that certificates are checked with, in hex."""

    public_key: str = Field(examples=["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"])


class Health(BaseModel):
    """Whether the process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether it serves a model and works on requests; `reason` says why not."""

    ready: bool
    reason: str = ""
    state: str | None = None
