"""Small made-up problems, and sources of noise that can be repeated or are broken on purpose. For tests only."""

import numpy as np

from shardgraph.storage.samples import Samples


class SeededNoise:
    """Repeatable draws: what `SecureNoise` must never be."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chosen(self, rate: float, count: int) -> np.ndarray:
        return self.rng.random(count) < rate

    def normal(self, count: int) -> np.ndarray:
        return self.rng.standard_normal(count)


class NoNoise(SeededNoise):
    """Samples as it should, and adds nothing: a broken source."""

    def normal(self, count: int) -> np.ndarray:
        return np.zeros(count)


class Picks(NoNoise):
    """No noise, and these rows in every step."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows

    def chosen(self, rate: float, count: int) -> np.ndarray:
        return np.isin(np.arange(count), self.rows)


def make_samples(labels: list[str], dim: int = 8, tokens: int = 3, ragged: bool = False, seed: int = 0) -> Samples:
    """Samples whose tokens hint at their label."""
    rng = np.random.default_rng(seed)
    names = sorted(set(labels))
    centres = rng.standard_normal((len(names), dim))
    lengths = rng.integers(1, tokens + 1, len(labels)) if ragged else np.full(len(labels), tokens)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    of_token = np.repeat([names.index(label) for label in labels], lengths)
    rows = centres[of_token] + 0.5 * rng.standard_normal((offsets[-1], dim))
    features = centres[[names.index(label) for label in labels]] + 0.5 * rng.standard_normal((len(labels), dim))
    ids = tuple(f"s{i:03d}" for i in range(len(labels)))
    return Samples(ids, tuple(labels), rows.astype(np.float32), offsets, features.astype(np.float32))


def by_class(labels: list[str] | tuple[str, ...], classes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The paper's masks: an adapter's own class directly, all others privately."""
    direct = np.array([[label == each for label in labels] for each in classes])
    return direct, ~direct
