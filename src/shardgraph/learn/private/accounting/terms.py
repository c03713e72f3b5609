"""PrivacyTerms: the guarantee of private edges, as one value that is part of the configuration."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shardgraph.errors import ConfigError
from shardgraph.learn.private.accounting.budget import BUDGETS, DEFAULT, Budget
from shardgraph.learn.private.accounting.mechanism import Mechanism, calibrate, check_delta, check_epsilon, epsilon
from shardgraph.learn.private.private_recipe import PrivateRecipe


@dataclass(frozen=True)
class PrivacyTerms:
    """The terms on which adapters learn over private edges; the first training fixes all but the budget.

    epsilon, delta   what one sample may lose to the adapters of other shards when every group of the first training was
                     built once; later builds and later readers add to it
    budget           how far from never-saw adapters may be after removals, before they are built anew
    every            whether every edge of the graph is private, or those alone to which the graph gives a weight
    recipe           the public constants of training; the first training finds the noise, unless it is given
    """

    epsilon: float
    delta: float
    budget: Budget = DEFAULT
    every: bool = True
    recipe: PrivateRecipe = field(default_factory=PrivateRecipe)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def settled(self, readers: int) -> "PrivacyTerms":
        """The terms with the noise for samples that up to `readers` groups learn from; a given noise is checked."""
        recipe = self.recipe
        if recipe.noise is None:
            noise = calibrate(recipe.rate, recipe.steps, self.epsilon, self.delta, releases=readers)
            return replace(self, recipe=replace(recipe, noise=noise))
        found, _ = epsilon([recipe.mechanism] * readers, self.delta)
        if found > self.epsilon:
            raise ConfigError(
                f"noise {recipe.noise} gives epsilon {found:.4g} with {readers} readers, over {self.epsilon}"
            )
        return self

    @property
    def mechanism(self) -> Mechanism:
        """One build of a group, for the accountant."""
        return self.recipe.mechanism

    def agrees(self, other: "PrivacyTerms") -> bool:
        """Whether these settled terms match `other`, apart from the budget and a noise that `other` leaves open."""
        noise = self.recipe.noise if other.recipe.noise is None else other.recipe.noise
        return replace(other, budget=self.budget, recipe=replace(other.recipe, noise=noise)) == self

    def to_json(self) -> dict[str, Any]:
        """The terms as a plain dict, for the configuration."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "PrivacyTerms":
        """The terms that `to_json` wrote."""
        parts = {"budget": Budget(**value["budget"]), "recipe": PrivateRecipe.from_json(value["recipe"])}
        return cls(**{**value, **parts})


def budget_of(name: str | None = None, alpha: float | None = None, beta: float | None = None) -> Budget | None:
    """A budget by its name, with changes; None where nothing is given."""
    if name is None and alpha is None and beta is None:
        return None
    if name is not None and name not in BUDGETS:
        raise ConfigError(f"a budget must be one of {', '.join(BUDGETS)}, got {name!r}")
    base = BUDGETS[name] if name else DEFAULT
    if alpha is None and beta is None:
        return base
    return Budget(base.alpha if alpha is None else alpha, base.beta if beta is None else beta)
