"""The JSON bodies of requests and responses, with examples."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from shardgraph.forget import ForgetRequest
from shardgraph.storage.tables.requests import Request as StoredRequest

MAX_NAMES, MAX_SAMPLES = 10_000, 4096
MAX_TOKENS, MAX_TOKENS_EACH = 65_536, 4096  # of a call, and of one of its samples
Name = Annotated[str, Field(min_length=1, max_length=1024)]
Names = Annotated[list[Name], Field(max_length=MAX_NAMES, fail_fast=True)]  # an error for every name would take long
Numbers = Annotated[list[float], Field(fail_fast=True)]
Tokens = Annotated[list[Numbers], Field(max_length=MAX_TOKENS_EACH, fail_fast=True)]
StateName = Literal["received", "instant", "erasing", "retraining", "verified", "done", "failed", "cancelled"]

_HIDDEN = "null for an owner"
_OF_OTHERS = (  # figures of a preview that depend on what other sources hold
    "groups_to_rebuild",
    "groups_that_vanish",
    "adapters_to_rebuild",
    "samples_to_revisit",
    "share_of_full_retraining",
    "classes_that_disappear",
)
_NEW_REQUEST: Any = {"samples": ["photo-7"], "reason": "consent withdrawn", "deadline": "2030-01-31T12:00:00Z"}


def _in_utc(value: datetime) -> datetime:
    if not 2000 <= value.year <= 2200:
        raise ValueError("a deadline must be in the years 2000 to 2200")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class StrictBody(BaseModel):
    """The body of a call: fields that are not known are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_field_count(cls, sent: Any) -> Any:
        """Refuse many unknown fields with one error: an error for each would delay other calls."""
        if isinstance(sent, dict) and len(sent) > len(cls.model_fields):
            raise ValueError(f"the only fields are {', '.join(cls.model_fields)}")
        return sent


class Selection(StrictBody):
    """What to forget: samples, and all samples of sources, subjects, shards or labels."""

    samples: Names = []
    sources: Names = []
    subjects: Names = []
    shards: Names = []
    labels: Names = []
    twins: bool = Field(False, description="Also forget the samples that hold the same content, exactly or nearly.")
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"samples": ["photo-7"]}]})

    def to_request(self, reason: str = "") -> ForgetRequest:
        """The forget request for this selection."""
        kinds = (self.samples, self.sources, self.subjects, self.shards, self.labels)
        samples, sources, subjects, shards, labels = (tuple(names) for names in kinds)
        return ForgetRequest(samples, sources, subjects, shards, labels, reason)


class NewRequest(Selection):
    """A forget request."""

    reason: str = Field("", max_length=500, description="Stored with the request; do not name anybody.")
    deadline: Annotated[datetime, AfterValidator(_in_utc)] | None = Field(
        None, description="When it must be done; the nearest deadline goes first. Thirty days from now if omitted."
    )
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_NEW_REQUEST]})


class Closeness(BaseModel):
    """How close groups with private edges are to groups that never saw the samples removed since they were built."""

    alpha: float = Field(examples=[4.0])
    beta: float = Field(examples=[1e-9])
    method: str = Field(examples=["formula/pld"])
    removed: int = Field(examples=[2])


class Bound(BaseModel):
    """The largest distance that the budget allows."""

    alpha: float = Field(examples=[10.0])
    beta: float = Field(examples=[0.001])
    name: str = Field(examples=["default"])


class Privacy(BaseModel):
    """What a forget request spends of the budget of private edges."""

    groups_charged: int | None = Field(
        description=f"Groups that used the samples privately and stay in service; {_HIDDEN}."
    )
    groups_over_budget: int | None = Field(
        description=f"Groups that are rebuilt because their budget is spent; {_HIDDEN}."
    )
    before: Closeness
    after: Closeness
    budget: Bound


class Preview(BaseModel):
    """What a forget request would do; to an owner, figures that depend on other sources are null."""

    samples: int = Field(examples=[1])
    groups_to_rebuild: int | None = Field(examples=[4], description=_HIDDEN)
    groups_that_vanish: int | None = Field(examples=[0], description=_HIDDEN)
    adapters_to_rebuild: int | None = Field(examples=[40], description=_HIDDEN)
    samples_to_revisit: int | None = Field(examples=[1200], description=_HIDDEN)
    share_of_full_retraining: float | None = Field(examples=[0.031], description=_HIDDEN)
    classes_that_disappear: list[str] | None = Field(description=_HIDDEN)
    sources_that_disappear: list[str]
    already_forgotten: list[int] = Field(description="The certificates of what was forgotten before.")
    twins: list[str] = Field(description="Other samples with the same content; they stay unless they are requested.")
    seconds: float | None = Field(
        description="The median duration of the last requests, for an owner of its own; null before the first."
    )
    privacy: Privacy | None = Field(
        None, description="What the request spends; null in a workspace without private edges."
    )

    @classmethod
    def of_nothing(cls, certificates: list[int], seconds: float | None) -> "Preview":
        """The preview for an owner whose earlier request took all that is named."""
        hidden: Any = dict.fromkeys(_OF_OTHERS)
        return cls(
            samples=0, sources_that_disappear=[], already_forgotten=certificates, twins=[], seconds=seconds, **hidden
        )

    def for_owner(self) -> "Preview":
        """The same without the figures that depend on other sources."""
        hidden: dict[str, Any] = dict.fromkeys(_OF_OTHERS)
        if self.privacy is not None:
            hidden["privacy"] = self.privacy.model_copy(update={"groups_charged": None, "groups_over_budget": None})
        return self.model_copy(update=hidden)


class StateChange(BaseModel):
    """A state that was entered, and when."""

    state: StateName
    time: datetime


class RequestStatus(BaseModel):
    """A forget request and its state."""

    number: int = Field(examples=[12])
    state: StateName
    received: datetime
    deadline: datetime
    asker: str = Field(description="The name of the token that made the request.")
    reason: str
    samples: int
    certificate: int | None = Field(description="Its certificate; requests that are carried out together share one.")
    failure: str = Field(
        description="Why it failed or waits; an owner is told without names. What it names stays out of service."
    )
    history: list[StateChange] = []

    @classmethod
    def of(cls, stored: StoredRequest) -> "RequestStatus":
        """The status of a request in the queue."""
        facts = {name: getattr(stored, name) for name in cls.model_fields if name != "history"}
        history = [StateChange.model_validate({"state": state, "time": time}) for state, time in stored.history]
        return cls(**facts, history=history)


class RequestPage(BaseModel):
    """A page of requests; `next` is the `after` of the next page, null on the last one."""

    requests: list[RequestStatus]
    next: int | None


class Embeddings(StrictBody):
    """Embeddings to predict: `tokens` [n][t][d], or `features` [n][d] if every sample has one token, or both."""

    tokens: Annotated[list[Tokens], Field(max_length=MAX_SAMPLES, fail_fast=True)] | None = None
    features: Annotated[list[Numbers], Field(max_length=MAX_SAMPLES, fail_fast=True)] | None = None
    top: int = Field(1, ge=1, le=1000, description="How many classes to name, the best first.")
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"features": [[0.1, 0.2, 0.3, 0.4]], "top": 3}]}
    )


class Texts(StrictBody):
    """Texts to predict, for a workspace whose backbone takes texts."""

    texts: Annotated[
        list[Annotated[str, Field(max_length=100_000)]], Field(min_length=1, max_length=256, fail_fast=True)
    ]
    top: int = Field(1, ge=1, le=1000)
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"texts": ["a letter"], "top": 2}]})


class DataPart(StrictBody):
    """A part of the data: sources and shards."""

    sources: Names = []
    shards: Names = []
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"sources": ["ann"]}]})


class ConsumerRight(BaseModel):
    """What a consumer may use; `provision` says whether groups trained on that part alone are kept for it."""

    consumer: str = Field(examples=["shop"])
    sources: list[str]
    shards: list[str]
    provision: bool


class Provisioned(BaseModel):
    """How many groups were trained."""

    trained: int


class ScoredClass(BaseModel):
    """A class and its score."""

    label: str = Field(examples=["bee"])
    score: float = Field(examples=[1.73])


class Prediction(BaseModel):
    """The best classes of one sample."""

    top: list[ScoredClass]


class Predictions(BaseModel):
    """Predictions in the order of the samples, all made by one model."""

    state: str = Field(
        description="The state id of the model; the ledger says what was served under it.", examples=["9f2c" * 8]
    )
    predictions: list[Prediction]


class Event(BaseModel):
    """An event of the ledger; it names no sample."""

    number: int
    time: datetime
    event: str = Field(examples=["serving"])
    detail: dict[str, Any]


class EventPage(BaseModel):
    """A page of the ledger; `next` is the `after` of the next page, null on the last one."""

    lines: list[Event]
    next: int | None


class Problem(BaseModel):
    """An error: what was asked, what was found, what to do."""

    error: str = Field(examples=["there is no request 99"])
    kind: str = Field(examples=["InputError"])


class NonceRequest(StrictBody):
    """The samples whose entries in the certificate are to be opened."""

    samples: Names = Field(min_length=1)
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"samples": ["photo-7"]}]})


class Nonces(BaseModel):
    """For each sample, the nonce that opens its entry in the certificate; give it only to the person concerned."""

    certificate: int
    nonces: dict[str, str] = Field(examples=[{"photo-7": "5f1d" * 16}])


class ServedState(BaseModel):
    """What the ledger says about a state id."""

    state: str
    number: int = Field(description="The event of the ledger from which on it was served.")
    time: datetime
    withheld: list[int] | None = Field(
        description="The requests whose data was out of service but not erased yet; null for consumers."
    )
    adapters: int


class PublicKey(BaseModel):
    """The Ed25519 key that certificates are checked with, in hex."""

    public_key: str = Field(examples=["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"])


class Health(BaseModel):
    """Whether the process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether the service serves a model and carries out requests; `reason` says why not."""

    ready: bool
    reason: str = ""
    state: str | None = None
