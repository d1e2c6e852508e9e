"""Rows for one llama_decode call, in numpy arrays that a llama_batch points into."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llama_cpp.llama_cpp as C
import numpy as np


class Batch:
    """A reusable llama_batch of at most `capacity` token rows.

    Filling numpy slices costs microseconds where a ctypes store per field costs a millisecond per 200 rows.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.n_tokens = 0
        self.n_outputs = 0
        self._token = np.zeros(capacity, np.int32)
        self._pos = np.zeros(capacity, np.int32)
        self._steps = np.arange(capacity, dtype=np.int32)
        self._n_seq_id = np.ones(capacity, np.int32)
        self._seq_id = np.zeros(capacity, np.int32)
        self._output = np.zeros(capacity, np.int8)
        # llama_batch.seq_id is an array of pointers; each points at its row's entry of _seq_id.
        stride = np.arange(capacity, dtype=np.uint64) * np.uint64(self._seq_id.itemsize)
        self._seq_id_pointers = np.uint64(self._seq_id.ctypes.data) + stride
        self.struct = C.llama_batch()
        self._point("token", self._token)
        self._point("pos", self._pos)
        self._point("n_seq_id", self._n_seq_id)
        self._point("seq_id", self._seq_id_pointers)
        self._point("logits", self._output)

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
        rows = slice(start, start + count)
        self._token[rows] = token_ids
        self._pos[rows] = self._steps[:count] + first_pos
        self._seq_id[rows] = seq_id
        self._output[rows] = 0
        self._output[start + count - num_outputs : start + count] = 1
        first_output = self.n_outputs
        self.n_tokens += count
        self.n_outputs += num_outputs
        return first_output

    def _point(self, field: str, array: np.ndarray) -> None:
        field_type = type(getattr(self.struct, field))
        setattr(self.struct, field, ctypes.cast(array.ctypes.data, field_type))
