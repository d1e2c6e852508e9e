"""Rows for one llama_decode call, in numpy arrays that a llama_batch points into."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from homespec.engine.llama.bindings import C


class Batch:
    """A reusable llama_batch of at most `capacity` token rows.

    Rows are stored one by one through memory views: a round has few, and numpy's slicing, or a ctypes store per field,
    takes longer for them.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.n_tokens = 0
        self.n_outputs = 0
        token, pos, seq_id = (np.zeros(capacity, np.int32) for _ in range(3))
        n_seq_id, output = np.ones(capacity, np.int32), np.zeros(capacity, np.int8)
        # llama_batch.seq_id is an array of pointers; each points at its row's entry of seq_id.
        stride = np.arange(capacity, dtype=np.uint64) * np.uint64(seq_id.itemsize)
        pointers = np.uint64(seq_id.ctypes.data) + stride
        self.struct = C.llama_batch()
        self._arrays = {"token": token, "pos": pos, "n_seq_id": n_seq_id, "seq_id": pointers, "logits": output}
        for field, array in self._arrays.items():
            self._point(field, array)
        self._token, self._pos, self._seq_id, self._output = token.data, pos.data, seq_id.data, output.data

    def clear(self) -> None:
        self.n_tokens = 0
        self.n_outputs = 0

    def add(self, token_ids: Sequence[int], first_pos: int, seq_id: int, num_outputs: int) -> int:
        """Append rows at consecutive positions; the last `num_outputs` of them yield logits.

        Returns the index of the first of those rows among all logits rows of the call. Raises ValueError over capacity.
        """
        start, count = self.n_tokens, len(token_ids)
        if start + count > self.capacity:
            raise ValueError(f"batch of {start + count} rows is over its capacity of {self.capacity}")
        first_output_row = start + count - num_outputs
        for row, token_id in enumerate(token_ids, start):
            self._token[row] = token_id
            self._pos[row] = first_pos + row - start
            self._seq_id[row] = seq_id
            self._output[row] = row >= first_output_row
        first_output = self.n_outputs
        self.n_tokens += count
        self.n_outputs += num_outputs
        return first_output

    def seal(self) -> C.llama_batch:
        """The struct that one call reads; valid until rows are added or cleared."""
        self.struct.n_tokens = self.n_tokens
        return self.struct

    def _point(self, field: str, array: np.ndarray) -> None:
        field_type = type(getattr(self.struct, field))
        setattr(self.struct, field, ctypes.cast(array.ctypes.data, field_type))
