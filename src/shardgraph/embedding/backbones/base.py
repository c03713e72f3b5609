"""Backbone: what every backbone guarantees. The same sample gives the same bits, whatever else is in its batch.

A forward pass has one shape for each bucket, and the bucket of a sample depends on the sample alone (images have one
bucket; the bucket of a text is its padded length). On the CPU a pass runs in one thread, so that bits depend on neither
the number of cores nor the load, and several passes run in parallel. Images pass one at a time: that is also fastest,
since a pass then fits the caches. Texts and GPUs need batches for speed: their passes have `batch_size(bucket)` rows,
padded at the end. Before a bucket is first used, a synthetic sample is embedded at every position at once; if the bits
differ between positions, that bucket is processed one row at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shardgraph.embedding.records import Payload
from shardgraph.errors import BackboneError

Bucket = tuple[Any, ...]
Prepared = np.ndarray  # pixels [s, s, 3] uint8, or token ids [t] int64


class Embedded(NamedTuple):
    """One sample's embedding: tokens [t, d] as the backbone's dtype, features [f] float32."""

    tokens: np.ndarray
    features: np.ndarray


def _device(asked: str | None) -> torch.device:
    """The requested device, if it is available; by default the GPU if there is one."""
    gpu = torch.cuda.is_available()
    if asked not in (None, "cpu", "cuda") or (asked == "cuda" and not gpu):
        found = "cpu and cuda" if gpu else "no GPU that torch can use: choose cpu"
        raise BackboneError(f"a backbone runs on cpu or cuda, got {asked!r}; here is {found}")
    return torch.device(asked or ("cuda" if gpu else "cpu"))


class Backbone(ABC):
    """A frozen network that turns one payload into tokens and features.

    `identity` names everything that the bits of an embedding depend on, except for the numerics fingerprint (device
    model, library versions). A workspace keeps it and refuses a backbone with another identity.
    """

    modality: str
    concurrent: bool = True  # whether passes may run in parallel on the CPU

    def __init__(self, name: str, *, weights: str, layer: int, device: str | None, dtype: str) -> None:
        if dtype not in ("float16", "float32"):
            raise BackboneError(f"tokens must be float16 or float32, got {dtype!r}")
        self.name, self.weights, self.layer, self.dtype = name, weights, layer, dtype
        self.device = _device(device)
        self._rows: dict[Bucket, int] = {}

    @property
    def identity(self) -> dict[str, Any]:
        """Name, weights digest, preprocessing, layer, dtype and device kind, as JSON values."""
        return {
            "name": self.name,
            "modality": self.modality,
            "weights": self.weights,
            "preprocessing": self.preprocessing,
            "layer": self.layer,
            "dtype": self.dtype,
            "device": self.device.type,
        }

    @property
    @abstractmethod
    def preprocessing(self) -> dict[str, Any]:
        """How a payload becomes the network's input, as JSON values."""

    @abstractmethod
    def prepare(self, payload: Payload) -> Prepared:
        """Decode and preprocess one payload on the CPU; `InputError` if it cannot be read."""

    @abstractmethod
    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Prepared rows of one bucket [n, ...] -> tokens [n, t, d] and features [n, f], on the device."""

    @abstractmethod
    def probe(self, bucket: Bucket) -> Prepared:
        """A synthetic sample of a bucket, the same each time."""

    def bucket(self, prepared: Prepared) -> Bucket:
        """The key of the shape of a sample's pass; it depends on the sample alone."""
        return prepared.shape

    def batch_size(self, bucket: Bucket) -> int:
        """The rows of a pass, if the position of a row does not change its bits."""
        return 1 if self.device.type == "cpu" else 64

    def stack(self, rows: Sequence[Prepared]) -> Tensor:
        """Rows of one bucket as one batch, freshly allocated (alignment may decide which kernel runs)."""
        return torch.from_numpy(np.stack(rows))

    def trim(self, prepared: Prepared, tokens: np.ndarray) -> np.ndarray:
        """The tokens of a sample, without padding."""
        return tokens

    def rows(self, bucket: Bucket) -> int:
        """The rows of each pass of a bucket: `batch_size`, or 1 if position would change bits."""
        if bucket not in self._rows:
            most = self.batch_size(bucket)
            self._rows[bucket] = most if most == 1 or self._ignores_position(bucket, most) else 1
        return self._rows[bucket]

    def embed(self, batch: Sequence[Prepared]) -> list[Embedded]:
        """Embed at most `rows(bucket)` prepared samples of one bucket, in one pass of constant shape.

        To be called inside `exact_numerics`, as `shardgraph.embedding.pipeline` does.
        """
        rows = self.rows(self.bucket(batch[0]))
        assert 0 < len(batch) <= rows, "a batch holds one bucket's samples and fits a pass"
        tokens, features = self._pass([*batch, *[batch[0]] * (rows - len(batch))])
        return [Embedded(self.trim(sample, tokens[i]).copy(), features[i].copy()) for i, sample in enumerate(batch)]

    def _pass(self, batch: Sequence[Prepared]) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            tokens, features = self.forward(self.stack(batch).to(self.device))
            return tokens.to(getattr(torch, self.dtype)).cpu().numpy(), features.float().cpu().numpy()

    def _ignores_position(self, bucket: Bucket, rows: int) -> bool:
        tokens, features = self._pass([self.probe(bucket)] * rows)
        return all(bool((out == out[:1]).all()) for out in (tokens, features))
