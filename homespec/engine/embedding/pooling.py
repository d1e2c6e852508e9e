"""From the states of a text's tokens to its vector. Pure."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Pooling(StrEnum):
    """Which states make the vector (llama_pooling_type in llama.h)."""

    MEAN = "mean"
    CLS = "cls"
    """The first token's."""
    LAST = "last"


class Pool:
    """The states of one text, chunk by chunk in the order of its tokens.

    llama.cpp pools within one call only; taken from its unpooled states a vector is the same however the text was cut,
    also behind a dense output layer, which is linear.
    """

    def __init__(self, pooling: Pooling) -> None:
        self._pooling = pooling
        self._total: NDArray[np.float64] | None = None
        self._count = 0

    def add(self, states: Floats) -> None:
        """States of the next tokens, shape (tokens, width)."""
        match self._pooling:
            case Pooling.MEAN:
                total = states.sum(axis=0, dtype=np.float64)
                self._total = total if self._total is None else self._total + total
                self._count += len(states)
            case Pooling.CLS if self._total is None:
                self._total, self._count = states[0].astype(np.float64), 1
            case Pooling.LAST:
                self._total, self._count = states[-1].astype(np.float64), 1

    def vector(self, num_dimensions: int | None = None) -> Floats | None:
        """Of length 1, shape (width,), or its first `num_dimensions`, made that long again. None for one that has no
        length, or is not finite.
        """
        assert self._total is not None, "a text has at least one token"
        vector = (self._total / self._count)[:num_dimensions]
        length = float(np.linalg.norm(vector))
        return (vector / length).astype(np.float32) if np.isfinite(length) and length > 0 else None
