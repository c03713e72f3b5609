"""Recipe: every choice about training, as one frozen value that is part of the configuration."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from shardgraph.errors import ConfigError

Projection = Literal["random", "orthogonal", "identity"]


@dataclass(frozen=True)
class Recipe:
    """How the adapters of a group are made and trained.

    adapter       "inca" (a query and a head per class), "linear" (a weight and a bias per class), or "none": nothing is
                  trained, and the model is the prototypes alone
    projection    the frozen attention's matrices: "random" as in the paper, "orthogonal", "identity"
    heads         attention heads; 0: one per 64 dimensions, or per 32 or 16 where 64 does not divide the dimension
    loss          "ce": cross-entropy inside a group; "bce": one binary problem per adapter
    prototypes    whether class prototypes are mixed in at inference
    method        "second": second-order prototypes; "safe": the paper's; `mixing_weight` gives the weight of either
    expansion     random features of the tokens for second-order prototypes, per token dimension, at most 3072 in all;
                  0: none
    shrinkage     of the second-order covariance, between 0 and 1; None: chosen from the same sums
    mixing        the weight of second-order prototypes against the adapters, both standardised per sample;
                  None: computed from the number of retained samples per adapter
    """

    name: str = "default"
    adapter: Literal["inca", "linear", "none"] = "inca"
    projection: Projection = "identity"
    heads: int = 0
    loss: Literal["ce", "bce"] = "ce"
    epochs: int = 30
    batch: int = 32
    lr: float = 0.01
    weight_decay: float = 1e-4
    prototypes: bool = True
    method: Literal["second", "safe"] = "second"
    expansion: int = 16
    shrinkage: float | None = None
    mixing: float | None = None

    def __post_init__(self) -> None:
        choices = {
            "adapter": ("inca", "linear", "none"),
            "projection": ("random", "orthogonal", "identity"),
            "loss": ("ce", "bce"),
            "method": ("second", "safe"),
        }
        for field, allowed in choices.items():
            if getattr(self, field) not in allowed:
                raise ConfigError(f"{field} must be one of {', '.join(allowed)}, got {getattr(self, field)!r}")
        for field, least in (("epochs", 1), ("batch", 1), ("heads", 0), ("expansion", 0)):
            if getattr(self, field) < least:
                raise ConfigError(f"{field} must be at least {least}, got {getattr(self, field)}")
        for field in ("shrinkage", "mixing"):
            value = getattr(self, field)
            if value is not None and not 0 < value <= 1:
                raise ConfigError(f"{field} must be above 0 and at most 1, got {value}")
        if not self.lr > 0 or self.weight_decay < 0:
            raise ConfigError(f"lr must be > 0 and weight_decay >= 0, got {self.lr} and {self.weight_decay}")

        if not self.has_adapters and not self.prototypes:
            raise ConfigError("adapter 'none' needs prototypes, got neither (--no-prototypes): nothing would learn")
        if not self.has_adapters and self.mixing is not None:
            raise ConfigError(f"mixing must be left out with adapter 'none', got {self.mixing}: nothing is mixed")

    def to_json(self) -> dict[str, Any]:
        """The recipe as a plain dict, for the configuration."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Recipe":
        """The recipe that `to_json` wrote."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise ConfigError(f"a recipe has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        return cls(**value)

    @property
    def has_adapters(self) -> bool:
        """Whether groups are trained; if not, the model is the prototypes alone."""
        return self.adapter != "none"

    @property
    def second_order(self) -> bool:
        """Whether second-order sums are kept and used."""
        return self.prototypes and self.method == "second"

    def head_count(self, dim: int) -> int:
        """The number of attention heads for tokens of `dim` dimensions."""
        if self.heads == 0:
            return next((dim // width for width in (64, 32, 16) if dim % width == 0), 1)
        if dim % self.heads:
            raise ConfigError(f"heads must divide the token dimension, got {self.heads} heads for {dim}")
        return self.heads


# The paper: AdamW, 30 epochs, cosine schedule from 0.05, weight decay 1e-4, frozen random attention (section
# Experiments and appendix "Optimization"). It does not state batch size, heads and initial values; those are ours.
PAPER = Recipe(name="paper", projection="random", lr=0.05, method="safe")
LINEAR = Recipe(name="linear", adapter="linear", lr=3e-4, method="safe")
RECIPES = {"default": Recipe(), "paper": PAPER, "linear": LINEAR}


def recipe(name: str, **changes: Any) -> Recipe:
    """The named recipe, with changes; a changed recipe is called NAME*."""
    if name not in RECIPES:
        raise ConfigError(f"recipe must be one of {', '.join(RECIPES)}, got {name!r}")
    changes = {key: value for key, value in changes.items() if value is not None}
    base = RECIPES[name]
    return replace(base, **{"name": f"{name}*", **changes}) if changes else base


def mixing_weight(groups: Sequence[tuple[int, int]], recipe: Recipe) -> float:
    """lambda, the weight of the prototypes, from (samples, adapters) of every group; computed anew at every build.

    First order (the paper's): exp(-m / 100), m the mean number of samples that an adapter was trained on. Second order:
    0.7 + 0.3 exp(-p / 100), p the number of samples divided by the number of adapters, unless the recipe sets `mixing`.
    """
    if not recipe.prototypes:
        return 0.0
    adapters = sum(count for _, count in groups)
    if recipe.second_order:
        each = sum(samples for samples, _ in groups) / max(adapters, 1)
        return 0.7 + 0.3 * math.exp(-each / 100) if recipe.mixing is None else recipe.mixing
    return math.exp(-sum(samples * count for samples, count in groups) / adapters / 100) if adapters else 1.0
