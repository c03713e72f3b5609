"""What private training draws, and the one way in which noise meets a sum. `secure` is the source of the product."""

import math
from typing import Protocol

import numpy as np


class NoiseSource(Protocol):
    """Independent draws that nobody can repeat. A source that can be repeated belongs in tests only."""

    def chosen(self, rate: float, count: int) -> np.ndarray:
        """[count] bool, each True with probability `rate`."""
        ...

    def normal(self, count: int) -> np.ndarray:
        """[count] float64 standard normals."""
        ...


def released(total: np.ndarray, deviation: float, noise: NoiseSource) -> np.ndarray:
    """The sum with Gaussian noise of this deviation, rounded to a grid: all that may be seen of private samples.

    Noise is added in float64 and the result rounded to about 2^-26 deviations, so that every value released could
    have come from millions of draws: the gaps between floating-point draws do not show which sum they were added to.
    """
    grid = 2.0 ** (math.floor(math.log2(deviation)) - 26)
    noisy = total.astype(np.float64) + deviation * noise.normal(total.size).reshape(total.shape)
    return np.round(noisy / grid) * grid
