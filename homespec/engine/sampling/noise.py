"""Gumbel noise that is a pure function of (seed, position, token id)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_REMEMBERED_POSITIONS = 32


class GumbelNoise:
    """One request's noise. Philox (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011) is keyed
    with the seed and counts from the position, so a draw depends on nothing that happened before it.

    The drafter and the verifier ask for the same positions: the latest ones are remembered.
    """

    def __init__(self, seed: int, n_vocab: int) -> None:
        self._seed = seed & (2**64 - 1)
        self._n_vocab = n_vocab
        self._uniforms: dict[int, NDArray[np.float64]] = {}

    def at(self, position: int, token_ids: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """Standard Gumbel variates at `position`, for all tokens or for the given ids."""
        uniform = self._uniform(position)
        if token_ids is not None:
            uniform = uniform[token_ids]
        return -np.log(-np.log(uniform))

    def _uniform(self, position: int) -> NDArray[np.float64]:
        known = self._uniforms.get(position)
        if known is None:
            raw = np.random.Philox(key=self._seed, counter=[0, 0, position, 0]).random_raw(self._n_vocab)
            # Centres of 2**53 cells: never 0 or 1, so both logarithms are finite.
            known = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            while len(self._uniforms) >= _REMEMBERED_POSITIONS:
                del self._uniforms[next(iter(self._uniforms))]
            self._uniforms[position] = known
        return known
