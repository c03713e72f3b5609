"""A choir: several models that answer from one forward pass.

Models that share adapters (those of several rights over one workspace) need not each run their own. All adapters of
all of them speak once; every model then listens to its own, and to nothing else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shardgraph.learn.adapters import Adapters
from shardgraph.learn.ensemble import Logits, Model, chunks, voices_of
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

Singers = Mapping[tuple[str, str], Adapters]
"""Adapters by group and digest: two models may have groups of one name that learned from different samples."""


@dataclass(frozen=True)
class Choir:
    """Models by name, and where each finds its adapters among all of them."""

    models: Mapping[str, Model]
    places: Mapping[str, Tensor]
    voices: Logits | None

    @classmethod
    def assemble(
        cls,
        models: Mapping[str, Model],
        singers: Mapping[str, Singers],
        recipe: Recipe,
        seed: int,
        device: str = "cpu",
    ) -> "Choir":
        """The choir of these models, given the adapters of each, in the order of its groups' names."""
        everyone = {key: adapters for own in singers.values() for key, adapters in own.items()}
        order = sorted(everyone)
        starts = dict(zip(order, np.cumsum([0, *(len(everyone[key].classes) for key in order)]).tolist(), strict=False))
        places = {
            name: torch.tensor(
                [starts[key] + i for key in sorted(own) for i in range(len(own[key].classes))], dtype=torch.long
            )
            for name, own in singers.items()
        }
        return cls(models, places, voices_of([everyone[key] for key in order], recipe, seed, device))

    def scores(self, names: Iterable[str], samples: Samples) -> dict[str, np.ndarray]:
        """SAFE(z) of these models [n, K], each in the order of its own classes."""
        found: dict[str, list[Tensor]] = {name: [] for name in names}
        with torch.no_grad():
            for chunk in chunks(samples):
                said = self.voices(chunk) if self.voices is not None else None
                for name, parts in found.items():
                    own = said[:, self.places[name]] if said is not None and len(self.places[name]) else None
                    parts.append(self.models[name].answer(chunk, own))
        return {
            name: torch.cat(parts).numpy() if parts else np.zeros((0, len(self.models[name].classes)), np.float32)
            for name, parts in found.items()
        }
