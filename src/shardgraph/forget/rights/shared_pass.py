"""SharedPass: the scores of several models from one forward pass over their adapters.

Models of several rights over one workspace share adapters. The logits of all distinct adapters are computed once; each
model then uses the columns of its own adapters and no others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shardgraph.learn.ensemble import Logits, Model, chunks, pack_adapters
from shardgraph.learn.inca import Adapters
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

KeyedAdapters = Mapping[tuple[str, str], Adapters]
"""Adapters by group and digest: two models may have groups of one name that were trained on different samples."""


@dataclass(frozen=True)
class SharedPass:
    """Models by name, and for each the columns of its adapters among the logits of all adapters."""

    models: Mapping[str, Model]
    columns: Mapping[str, Tensor]
    adapter_logits: Logits | None

    @classmethod
    def assemble(
        cls,
        models: Mapping[str, Model],
        adapters: Mapping[str, KeyedAdapters],
        recipe: Recipe,
        seed: int,
        device: str = "cpu",
    ) -> "SharedPass":
        """The shared pass of these models, given the adapters of each."""
        distinct = {key: group for own in adapters.values() for key, group in own.items()}
        order = sorted(distinct)
        starts = dict(zip(order, np.cumsum([0, *(len(distinct[key].classes) for key in order)]).tolist(), strict=False))
        columns = {
            name: torch.tensor(
                [starts[key] + i for key in sorted(own) for i in range(len(own[key].classes))], dtype=torch.long
            )
            for name, own in adapters.items()
        }
        return cls(models, columns, pack_adapters([distinct[key] for key in order], recipe, seed, device))

    def scores(self, names: Iterable[str], samples: Samples) -> dict[str, np.ndarray]:
        """SAFE(z) [n, K] of these models, each in the order of its own classes."""
        found: dict[str, list[Tensor]] = {name: [] for name in names}
        with torch.no_grad():
            for chunk in chunks(samples):
                logits = self.adapter_logits(chunk) if self.adapter_logits is not None else None
                for name, parts in found.items():
                    own = logits[:, self.columns[name]] if logits is not None and len(self.columns[name]) else None
                    parts.append(self.models[name].scores_from(chunk, own))
        return {
            name: torch.cat(parts).numpy() if parts else np.zeros((0, len(self.models[name].classes)), np.float32)
            for name, parts in found.items()
        }
