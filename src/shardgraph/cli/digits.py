"""The demo's data: scikit-learn's 1797 handwritten digits, dealt to five schools."""

import numpy as np

import shardgraph
from shardgraph.digest import keyed_hash
from shardgraph.errors import InputError

SCHOOLS = ("ash", "birch", "cedar", "oak", "willow")
_PATCH, _STRIDE = 4, 2


def digits() -> "shardgraph.Samples":
    """All digits as samples: nine 4 x 4 patches each as tokens, the 64 pixels as features, a fifth held out."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("the demo needs scikit-learn: pip install 'shardgraph[demo]'") from None
    found = load_digits()
    images = found.images.astype(np.float32) / 16
    tokens = _tokens(images)
    count = len(images)
    ids = tuple(f"digit-{i:04d}" for i in range(count))
    return shardgraph.Samples(
        ids=ids,
        labels=tuple(str(label) for label in found.target),
        tokens=tokens.reshape(-1, tokens.shape[-1]).astype(np.float16),
        offsets=np.arange(count + 1, dtype=np.int64) * tokens.shape[1],
        features=images.reshape(count, -1),
        sources=tuple(SCHOOLS[keyed_hash(0, "school", i) % len(SCHOOLS)] for i in ids),
        splits=tuple("test" if keyed_hash(0, "split", i) % 5 == 0 else "train" for i in ids),
    )


def _tokens(images: np.ndarray) -> np.ndarray:
    """Overlapping patches with a one-hot place behind their pixels: [n, 9, 25]."""
    starts = range(0, images.shape[1] - _PATCH + 1, _STRIDE)
    patches = [images[:, i : i + _PATCH, j : j + _PATCH].reshape(len(images), -1) for i in starts for j in starts]
    places = np.eye(len(patches), dtype=images.dtype)
    return np.stack([np.concatenate([p, np.tile(places[k], (len(p), 1))], axis=1) for k, p in enumerate(patches)], 1)
