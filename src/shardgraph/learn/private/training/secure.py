"""SecureNoise: the randomness of private training, from a cryptographic stream whose key is not kept.

Each draw uses a fresh ChaCha20 key from the operating system, which is then dropped. docs/privacy.md, "Limits",
describes what this does and does not protect against.
"""

import math
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

WORD = 2.0**64


class SecureNoise:
    """Draws from ChaCha20, keyed anew by os.urandom for every draw."""

    def chosen(self, rate: float, count: int) -> np.ndarray:
        """[count] bool: a 64-bit word below rate 2^64, compared as integers."""
        if rate >= 1:
            return np.ones(count, bool)
        return self.words(count) < np.uint64(int(rate * WORD))

    def normal(self, count: int) -> np.ndarray:
        """[count] float64 by Box and Muller: without rejection, so that the running time reveals nothing.

        The radius uses 128 bits, so that its uniform has full relative precision down to 2^-64 and the tail ends at
        13.3 deviations; 53-bit uniforms would leave gaps from about 7 on.
        """
        pairs = (count + 1) // 2
        high, low, turn = self.words(3 * pairs).reshape(3, pairs)
        radius = np.sqrt(-2 * np.log((high + (low + 0.5) / WORD) / WORD))
        angle = turn * (2 * math.pi / WORD)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]

    def words(self, count: int) -> np.ndarray:
        """[count] uint64, uniform."""
        stream = Cipher(algorithms.ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor()
        return np.frombuffer(stream.update(bytes(8 * count)), np.uint64)
