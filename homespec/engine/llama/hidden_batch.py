"""Rows that carry a hidden state, with or without a token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from homespec.engine.llama.batch import Batch
from homespec.engine.llama.bindings import C
from homespec.engine.llama.taps import Hidden

MROPE_PLANES = 4


class HiddenBatch(Batch):
    """A reusable llama_batch of at most `capacity` rows of `width` floats each."""

    def __init__(self, capacity: int, width: int, *, has_tokens: bool, planes: int = 1) -> None:
        """has_tokens: every row also has a token. planes: numbers that make up a position, 4 under M-RoPE."""
        super().__init__(capacity)
        self._planes = planes
        self._positions = np.zeros(capacity * planes, np.int32)
        self._hidden = np.zeros((capacity, width), np.float32)
        self._point("pos", self._positions)
        self._point("embd", self._hidden)
        if not has_tokens:
            self.struct.token = type(self.struct.token)()  # NULL

    def add_hidden(
        self, hidden: Hidden, first_pos: int, seq_id: int, num_outputs: int, token_ids: Sequence[int] | None = None
    ) -> int:
        """Append rows at consecutive positions; the last `num_outputs` of them yield logits.

        Returns the index of the first of those rows among all logits rows of the call. Raises ValueError over capacity.
        """
        start = self.n_tokens
        first_output = self.add(token_ids or [0] * len(hidden), first_pos, seq_id, num_outputs)
        self._hidden[start : self.n_tokens] = hidden
        return first_output

    def seal(self) -> C.llama_batch:
        """Positions lie plane by plane: time, height, width, and a last one that text leaves at 0."""
        count = self.n_tokens
        for plane in range(min(self._planes, MROPE_PLANES - 1)):
            self._positions[plane * count : (plane + 1) * count] = self._pos[:count]
        self._positions[(MROPE_PLANES - 1) * count : self._planes * count] = 0
        return super().seal()
