"""TextBackbone: what backbones for text share. Token ids, buckets by the length of a text, masks."""

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shardgraph.embedding.backbones.base import Backbone, Bucket
from shardgraph.embedding.records import TEXT, Payload
from shardgraph.errors import InputError

TOKENS_PER_PASS = {"cpu": 512, "cuda": 16384}


def padded_length(length: int) -> int:
    """The length a text is padded to: a multiple of 8, then of 32, then of 128."""
    step = 8 if length <= 64 else 32 if length <= 256 else 128
    return -(-length // step) * step


class TextBackbone(Backbone):
    """A backbone for text; subclasses define the network and the pooling.

    A bucket is the padded length and whether the text fills it: if no token of a batch is masked, attention may use
    another kernel with other bits, so such texts are never batched with others.
    """

    modality = TEXT
    tokenizer: Any
    most: int  # tokens a text is cut to

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._lock = threading.Lock()

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"tokenizer": self.tokenizer_digest, "cut_at": self.most, "padding": "8 to 64, 32 to 256, 128"}

    @property
    @abstractmethod
    def tokenizer_digest(self) -> str:
        """What decides about token ids, in hex."""

    @abstractmethod
    def embed_tokens(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """ids and mask [n, t] -> tokens [n, t, d] and features [n, f]."""

    def prepare(self, payload: Payload) -> np.ndarray:
        """The text's token ids, cut at `most`."""
        if payload == b"":
            raise InputError("a text must be there, got none")
        if not isinstance(payload, str):
            raise InputError(f"a text must be a string, got {type(payload).__name__}")
        try:
            payload.encode()
        except UnicodeEncodeError as problem:
            raise InputError(f"a text must be Unicode, got {problem}") from problem
        with self._lock:  # a tokenizer sets its truncation anew in every call
            ids = self.tokenizer(payload, truncation=True, max_length=self.most)["input_ids"]
        if not ids:
            raise InputError("a text must have at least one token, got none")
        return np.array(ids, dtype=np.int64)

    def bucket(self, prepared: np.ndarray) -> Bucket:
        length = min(padded_length(len(prepared)), self.most)
        return length, len(prepared) == length

    def batch_size(self, bucket: Bucket) -> int:
        length: int = bucket[0]
        return max(1, TOKENS_PER_PASS.get(self.device.type, 512) // length)

    def probe(self, bucket: Bucket) -> np.ndarray:
        length, full = bucket
        numbers = np.random.Generator(np.random.Philox(key=7))
        own = length if full else length - 1
        return numbers.integers(0, len(self.tokenizer), size=(own,), dtype=np.int64)

    def stack(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Ids and mask [n, 2, t] of texts of one bucket."""
        length, _ = self.bucket(rows[0])
        batch = np.zeros((len(rows), 2, length), dtype=np.int64)
        batch[:, 0] = self.tokenizer.pad_token_id or 0
        for i, row in enumerate(rows):
            batch[i, 0, : len(row)] = row
            batch[i, 1, : len(row)] = 1
        return torch.from_numpy(batch)

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        return self.embed_tokens(batch[:, 0].contiguous(), batch[:, 1].contiguous())

    def trim(self, prepared: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return tokens[: len(prepared)]


def masked_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean of each text's own tokens [n, t, d] -> [n, d], as sentence-transformers takes it."""
    weights = mask[:, :, None].to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
