"""Gumbel noise that is a pure function of (seed, position, token id)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class GumbelNoise:
    """One request's noise: a draw depends on nothing that happened before it, and costs nothing for other tokens.

    Uniforms are the outputs of a SplitMix64 generator (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
    Generators", OOPSLA 2014), which can be read at any index: the token id is the index, and the generator is split off
    the seed by the position.
    """

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        """Streams of one seed are independent of one another."""
        self._seed = _mix_int(_mix_int(seed) + stream)

    def at(self, position: int, token_ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """Standard Gumbel variates of the given tokens at `position`, same shape."""
        return -np.log(-np.log(self._uniforms(position, token_ids)))

    def draw(self, position: int, token_ids: NDArray[np.integer], scores: NDArray[np.float64]) -> int:
        """Index of an exact sample of the softmax of `scores`, by the Gumbel-max trick; one of -inf is never drawn."""
        return int(np.argmax(scores + self.at(position, token_ids)))

    def uniform(self, position: int) -> float:
        """One number in (0, 1) at `position`."""
        return float(self._uniforms(position, np.zeros(1, np.int64))[0])

    def _uniforms(self, position: int, indices: NDArray[np.integer]) -> NDArray[np.float64]:
        state = _mix_int(self._seed + position * _GOLDEN)
        bits = _mix(np.uint64(state) + indices.astype(np.uint64) * np.uint64(_GOLDEN))
        # Centres of 2**53 cells: never 0 or 1, so logarithms are finite.
        return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser (Stafford's variant 13 of MurmurHash3's), modulo 2**64."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _mix_int(value: int) -> int:
    """The same on one number; Python's integers are faster here than an array of one."""
    value &= _MASK
    value = (value ^ (value >> 30)) * int(_FIRST) & _MASK
    value = (value ^ (value >> 27)) * int(_SECOND) & _MASK
    return value ^ (value >> 31)
