"""NoiseSource: the random draws of private training, and the noisy, rounded sum; `secure` is the source in use."""

import math
from typing import Protocol

import numpy as np


class NoiseSource(Protocol):
    """Independent draws that cannot be repeated. A repeatable source is for tests and experiments only."""

    def chosen(self, rate: float, count: int) -> np.ndarray:
        """[count] bool, each True with probability `rate`."""
        ...

    def normal(self, count: int) -> np.ndarray:
        """[count] float64 standard normals."""
        ...


def released(total: np.ndarray, deviation: float, noise: NoiseSource) -> np.ndarray:
    """The sum with Gaussian noise of this deviation, rounded to a grid: all that is released of private samples.

    Noise is added in float64 and the result is rounded to about 2^-26 deviations, so that millions of draws lead to
    every released value: the gaps between floating-point draws do not reveal the sum that they were added to.
    """
    grid = 2.0 ** (math.floor(math.log2(deviation)) - 26)
    noisy = total.astype(np.float64) + deviation * noise.normal(total.size).reshape(total.shape)
    return np.round(noisy / grid) * grid
