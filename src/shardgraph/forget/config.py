"""The configuration: everything that determines the model, except the samples; stored as canonical JSON."""

import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardgraph.digest import canonical_json, digest
from shardgraph.errors import ConfigError, WorkspaceError
from shardgraph.graph import Topology
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.files import write_file

if TYPE_CHECKING:
    from shardgraph.learn.private.accounting.terms import PrivacyTerms

FORMAT = 2  # 1: second-order prototypes of other token features, before the first release


@dataclass(frozen=True)
class Config:
    """A workspace's configuration.

    seed        the root seed, from which all random generators are derived
    backbone    the identity of the backbone that made the embeddings
    dtype       the type in which tokens are stored
    classes     the class list: declared, or frozen from the labels present at the first training
    dims        (token dimension, feature dimension), fixed by the first samples
    topology    which shard a sample belongs to, and which shard learns from which; fixed by the first training
    recipe      how groups are trained; fixed by the first training
    privacy     the terms of private edges, if there are any; fixed by the first training, except the budget

    The last three are kept as the JSON that was written, since its digest is part of every group's key: a setting that
    a later version adds must not change it. `the_topology`, `the_recipe` and `the_privacy` are the values, parsed once.
    """

    seed: int
    backbone: dict[str, Any]
    dtype: str = "float16"
    classes: tuple[str, ...] | None = None
    dims: tuple[int, int] | None = None
    topology: dict[str, Any] | None = None
    recipe: dict[str, Any] | None = None
    privacy: dict[str, Any] | None = None

    @property
    def trained(self) -> bool:
        """Whether a first training has fixed topology, recipe and class list."""
        return self.topology is not None

    @cached_property
    def digest(self) -> str:
        return digest("config", canonical_json(self.to_json()))

    @property
    def basis(self) -> str:
        """The digest of all that training depends on: the configuration without the budget of private edges."""
        if self.privacy is None:
            return self.digest
        terms = {name: value for name, value in self.privacy.items() if name != "budget"}
        return digest("config", canonical_json(self.to_json() | {"privacy": terms}))

    def the_topology(self) -> Topology:
        """The topology, once it is fixed."""
        return self._topology

    @cached_property
    def _topology(self) -> Topology:
        return Topology.from_json(_fixed(self.topology))  # made once, because it caches the graph that it has drawn

    def the_recipe(self) -> Recipe:
        """The recipe, once it is fixed."""
        return self._recipe

    @cached_property
    def _recipe(self) -> Recipe:
        return Recipe.from_json(_fixed(self.recipe))

    def the_privacy(self) -> "PrivacyTerms | None":
        """The terms of private edges; None where all edges are plain."""
        return None if self.privacy is None else self._privacy

    @cached_property
    def _privacy(self) -> "PrivacyTerms":
        assert self.privacy is not None
        from shardgraph.learn.private.accounting.terms import PrivacyTerms

        return PrivacyTerms.from_json(self.privacy)

    @property
    def declared_sources(self) -> frozenset[str]:
        """The sources that the topology names. They are configuration: a forget does not remove them from here."""
        topology = self.topology or {}
        return frozenset((*topology.get("safe", ()), *topology.get("own", {}).get("shards", ())))

    def to_json(self) -> dict[str, Any]:
        """The configuration as a plain dict, with its format number; without private edges, `privacy` is left out."""
        value = {"format": FORMAT} | asdict(self)
        return value if self.privacy is not None else {k: v for k, v in value.items() if k != "privacy"}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Config":
        """The configuration that `to_json` wrote; an error if the format is another one."""
        found = value.get("format")
        if not isinstance(found, int) or found < 1:
            raise ConfigError(f"config.json must carry a format number, got {found!r}")
        if found != FORMAT:
            what = "upgrade shardgraph" if found > FORMAT else "add the samples to a new workspace and train it"
            raise ConfigError(f"this workspace has format {found}, this shardgraph reads {FORMAT}: {what}")
        known: dict[str, Any] = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        if odd := sorted(value.keys() - known.keys() - {"format"}):
            raise ConfigError(f"config.json must hold no other keys than those of format {FORMAT}, got {odd[0]!r}")
        lists = {name: tuple(known[name]) for name in ("classes", "dims") if known.get(name) is not None}
        return cls(**known | lists)

    def save(self, root: Path) -> None:
        """Write config.json, completely or not at all."""
        write_file(root, root / "config.json", canonical_json(self.to_json()) + b"\n")

    @classmethod
    def load(cls, root: Path) -> "Config":
        """Read config.json of a workspace."""
        try:
            return cls.from_json(json.loads((root / "config.json").read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            raise WorkspaceError(f"there is no workspace at {root}; make one with: shardgraph init {root}") from None
        except (json.JSONDecodeError, AttributeError, TypeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{root / 'config.json'} is torn or was changed: {error}") from error


def _fixed(value: dict[str, Any] | None) -> dict[str, Any]:
    if value is None:
        raise WorkspaceError("this workspace has not been trained yet; run: shardgraph train")
    return value
