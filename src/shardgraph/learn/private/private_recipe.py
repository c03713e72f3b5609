"""PrivateRecipe: the public constants of private training; none of them may depend on the data."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from shardgraph.errors import ConfigError
from shardgraph.learn.private.accounting.mechanism import Mechanism

FAIR = 5.0


@dataclass(frozen=True)
class PrivateRecipe:
    """How adapters learn from their own samples directly and from others privately, in every step.

    The defaults were chosen on a held-out part of Stanford Cars' training split; docs/privacy.md describes how.

    noise         the noise multiplier: deviation of the noise in units of `clip`; from `accounting.calibrate`.
                  None: not found yet, nothing can be trained
    rate          the probability with which each privately used sample takes part in a step
    steps         in each, one noisy sum of the others' gradients and `direct_steps` of AdamW on own samples
    clip          the most that one sample may move a step's sum, over all adapters of the group together
    normaliser    what the noisy sum is divided by
    lr            of the private part (plain SGD, constant); the direct part has the recipe's, along half a cosine.
                  None: such that the noise of all steps together moves a typical sample's logit by `blur`
    direct_batch  own samples of an owner in a direct step
    direct_steps  direct steps after each noisy sum
    rank          linear adapters learn privately in so many directions, see `directions`; 0: in all of them
    readers       the most owners within the group that use one sample privately; they share `clip`
    """

    noise: float | None = None
    rate: float = 1.0
    steps: int = 8
    clip: float = 1.0
    normaliser: float = 32.0
    lr: float | None = None
    direct_batch: int = 32
    direct_steps: int = 120
    rank: int = 200
    readers: int = 1

    def __post_init__(self) -> None:
        Mechanism(self.rate, 1.0 if self.noise is None else self.noise, self.steps)  # refuses a wrong one
        for name in ("clip", "normaliser", "lr"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{name} must be a number > 0, got {value}")
        for name, least in (("direct_batch", 1), ("direct_steps", 1), ("readers", 1), ("rank", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, got {getattr(self, name)}")

    @property
    def mechanism(self) -> Mechanism:
        """One training of a group with this recipe, for the accountant."""
        if self.noise is None:
            raise ConfigError("private training needs a noise multiplier: `accounting.calibrate` finds it")
        return Mechanism(self.rate, self.noise, self.steps)

    def step_size(self, length: float) -> float:
        """The private learning rate, for samples whose inputs are about `length` long: from public constants alone."""
        if self.lr is not None:
            return self.lr
        deviation = self.mechanism.noise_multiplier * self.clip * math.sqrt(self.steps)
        return self.blur * self.normaliser / (deviation * length)

    @property
    def blur(self) -> float:
        """The noise allowed in a logit: 1 where noise is small, less where it exceeds the signal.

        Some dozens of samples of a class move a parameter in one step about as far as `FAIR` clips of noise.
        """
        return 1 / (1 + self.mechanism.noise_multiplier / math.sqrt(self.steps) / FAIR)

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
