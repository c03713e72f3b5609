"""PrivateRecipe: the public constants of private training; none of them may be a function of the data."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from shardgraph.errors import ConfigError
from shardgraph.learn.private.accounting import Mechanism


@dataclass(frozen=True)
class PrivateRecipe:
    """How adapters learn from their own samples directly and from others privately, in every step.

    noise         the noise multiplier: deviation of the noise in units of `clip`; from `accounting.calibrate`.
                  None: not found yet, nothing can be trained
    rate          the probability with which each privately used sample takes part in a step
    steps         of both parts; the learning rates fall along half a cosine over them
    clip          the most that one sample may move a step's sum, over all adapters of the group together
    normaliser    what the noisy sum is divided by: about the number of samples expected in a step
    lr            of the private part (plain SGD); the direct part has the recipe's (AdamW)
    direct_batch  own samples of an owner in a step
    readers       the most owners within the group that use one sample privately; they share `clip`
    """

    noise: float | None = None
    rate: float = 0.02
    steps: int = 1000
    clip: float = 1.0
    normaliser: float = 32.0
    lr: float = 0.05
    direct_batch: int = 32
    readers: int = 1

    def __post_init__(self) -> None:
        Mechanism(self.rate, 1.0 if self.noise is None else self.noise, self.steps)  # refuses a wrong one
        for name in ("clip", "normaliser", "lr"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{name} must be a number > 0, got {value}")
        for name in ("direct_batch", "readers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")

    @property
    def mechanism(self) -> Mechanism:
        """One training of a group with this recipe, as the accountant sees it."""
        if self.noise is None:
            raise ConfigError("private training needs a noise multiplier: `accounting.calibrate` finds it")
        return Mechanism(self.rate, self.noise, self.steps)

    @property
    def owner_clip(self) -> float:
        """The most that one sample may move one owner's part of the sum: `readers` such parts make one `clip`."""
        return self.clip / math.sqrt(self.readers)

    def to_json(self) -> dict[str, Any]:
        """The recipe as a plain dict, for the configuration."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "PrivateRecipe":
        """The recipe that `to_json` wrote."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise ConfigError(
                f"a private recipe has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}"
            )
        return cls(**value)
