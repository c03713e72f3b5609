"""From what is sent to samples: numbers, array files, images and texts, all of bounded size."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.readers.arrayfiles import parse_arrays
from shardgraph.embedding.readers.arrays import samples_from
from shardgraph.embedding.records import EMBEDDING, UNLABELLED, Payload, Record
from shardgraph.errors import InputError
from shardgraph.forget.config import Config
from shardgraph.forget.intake.embed import the_backbone
from shardgraph.service.schemas import MOST_SAMPLES, MOST_TOKENS, MOST_TOKENS_EACH, Embeddings
from shardgraph.storage.samples import Samples, concatenate

Shapes = Mapping[str, tuple[int, ...]]
MOST_BYTES = 256 << 20  # of arrays, once they are unpacked


def from_numbers(sent: Embeddings, config: Config) -> Samples:
    """The samples of a JSON body."""
    given = {name: value for name, value in (("tokens", sent.tokens), ("features", sent.features)) if value is not None}
    try:
        arrays = {name: np.array(value, np.float64) for name, value in given.items()}
    except ValueError as error:
        raise InputError("tokens and features must be rectangular: every sample with as many numbers") from error
    _check_shapes({name: array.shape for name, array in arrays.items()}, config)
    return samples_from(arrays, config.dtype)


def from_arrays_file(raw: bytes, config: Config) -> Samples:
    """The samples of an .npz or .safetensors file."""
    arrays = parse_arrays(raw, MOST_BYTES, lambda shapes: _check_shapes(shapes, config))
    return samples_from(arrays, config.dtype)


class Eye:
    """The workspace's backbone, loaded when it is first needed and kept."""

    def __init__(self) -> None:
        self._backbone: Backbone | None = None
        self._lock = threading.Lock()

    def see(self, payloads: Sequence[Payload], modality: str, config: Config) -> Samples:
        """The samples of images or texts, embedded."""
        with self._lock:
            if self._backbone is None or self._backbone.modality != modality:
                self._backbone = the_backbone(config, modality)
            records = [Record(str(i), UNLABELLED, payload) for i, payload in enumerate(payloads)]
            return concatenate(embed(records, self._backbone))


def _check_shapes(shapes: Shapes, config: Config) -> None:
    """Raise if arrays of these shapes are not for this workspace, or more than one call may ask for."""
    takes = config.backbone.get("modality", EMBEDDING)
    if takes != EMBEDDING:
        raise InputError(f"this workspace's backbone takes {takes}s, no embeddings from elsewhere")
    most = max((shape[0] for shape in shapes.values() if shape), default=0)
    if most > MOST_SAMPLES:
        raise InputError(f"one call predicts at most {MOST_SAMPLES:,} samples, got {most:,}")
    tokens, features = shapes.get("tokens", ()), shapes.get("features", ())
    if len(tokens) == 3:
        _check_tokens(tokens[0], tokens[1])
    if len(tokens) == 3 or len(features) == 2:  # others are refused when they are read
        dims = ((tokens or features)[-1], (features or tokens)[-1])
        if dims != config.dims:
            raise InputError(f"this workspace holds tokens and features of {config.dims} dimensions, got {dims}")


def _check_tokens(samples: int, each: int) -> None:
    if each > MOST_TOKENS_EACH:
        raise InputError(f"a sample must have at most {MOST_TOKENS_EACH:,} tokens, got {each:,}")
    if samples * each > MOST_TOKENS:
        raise InputError(
            f"one call predicts at most {MOST_TOKENS:,} tokens, got {samples * each:,}: send fewer samples"
        )
